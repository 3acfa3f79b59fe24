package toolservice

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// stepLog is the file of an episode's steps, one JSON object a line. It is safe for concurrent use.
type stepLog struct {
	mu   sync.Mutex
	file *os.File

	// size of the whole lines
	size int64
}

// place is the position of a line in the file, in bytes.
type place struct{ at, length int64 }

// openLog opens or creates the log at path. It reports each whole line to found, and removes a partial last
// line, which a crash can leave.
func openLog(path string, found func(episode.Step, place)) (*stepLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "step log")
	}

	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "step log")
	}

	l := &stepLog{file: f}
	if err := errors.Join(l.recover(found), f.Truncate(l.size)); err != nil {
		return nil, errors.Join(fault.Wrap(fault.Internal, err, "read step log %s", path), f.Close())
	}

	return l, nil
}

func (l *stepLog) recover(found func(episode.Step, place)) error {
	r := bufio.NewReader(l.file)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}

		var s episode.Step
		if json.Unmarshal(line, &s) != nil {
			// a crash of the machine may leave blocks that were not written
			return nil
		}

		found(s, place{l.size, int64(len(line))})
		l.size += int64(len(line))
	}
}

// appendStep appends a step and returns once it is on disk.
func (l *stepLog) appendStep(s episode.Step) (place, error) {
	line, err := json.Marshal(s)
	if err != nil {
		return place{}, fault.Wrap(fault.Internal, err, "encode a step")
	}

	line = append(line, '\n')

	l.mu.Lock()
	defer l.mu.Unlock()

	if _, err := l.file.WriteAt(line, l.size); err != nil {
		return place{}, fault.Wrap(fault.Unavailable, err, "write the step log")
	}

	if err := l.file.Sync(); err != nil {
		return place{}, fault.Wrap(fault.Unavailable, err, "sync the step log")
	}

	p := place{l.size, int64(len(line))}
	l.size += p.length

	return p, nil
}

// read returns the step at a place.
func (l *stepLog) read(p place) (s episode.Step, err error) {
	line := make([]byte, p.length)
	if _, err = l.file.ReadAt(line, p.at); err == nil {
		err = json.Unmarshal(line, &s)
	}

	return s, fault.Wrap(fault.Internal, err, "read the step log")
}

// all reports each step of the log.
func (l *stepLog) all(each func(episode.Step)) error {
	l.mu.Lock()
	size := l.size
	l.mu.Unlock()

	r := bufio.NewReader(io.NewSectionReader(l.file, 0, size))
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}

		var s episode.Step
		if err == nil {
			err = json.Unmarshal(bytes.TrimSpace(line), &s)
		}

		if err != nil {
			return fault.Wrap(fault.Internal, err, "read the step log")
		}

		each(s)
	}
}

func (l *stepLog) close() error { return l.file.Close() }
