package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Log is one route's file of records. It is safe for concurrent use.
type Log struct {
	file   *os.File
	commit *committer

	mu      sync.Mutex
	index   index
	end     int64 // where the next frame goes
	damaged int
	broken  error // a write that failed and could not be undone
}

// Options of a log; the zero value is what production uses.
type Options struct {
	// Sync makes what was written to the file durable; nil: fdatasync, or what the system has for it.
	Sync func(*os.File) error
}

// Open opens the log at path, making it (mode 0600) when there is none, and cuts a torn tail off.
func Open(path string, o Options) (*Log, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	if o.Sync == nil {
		o.Sync = syncData
	}
	l := &Log{file: file, commit: &committer{sync: func() error { return o.Sync(file) }}}
	if err := l.load(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

func (l *Log) load() error {
	info, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("open trace: %w", err)
	}
	s := scanner{r: l.file, size: info.Size()}
	if err := s.load(&l.index); err != nil {
		return err
	}
	l.end, l.damaged = s.at, s.damaged
	if l.end == info.Size() {
		return nil
	}
	if err := l.file.Truncate(l.end); err != nil {
		return fmt.Errorf("cut torn tail of trace: %w", err)
	}
	return l.commit.sync()
}

// Append writes the record and returns when it is on disk. The record's ids and logprobs are checked first; see
// Record.Check.
func (l *Log) Append(r *Record) error {
	r.Check()
	f, err := encode(r)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "trace")
	}
	n, err := l.write(f, func(at int64) { l.index.put(&r.Head, at, f.size()-frameHead) })
	if err != nil {
		return err
	}
	return l.commit.wait(n)
}

// Delivered notes that the agent got the reply of a turn. It does not wait for the disk: a note lost with the machine's
// power says too little, never too much.
func (l *Log) Delivered(turn int) error {
	head, err := json.Marshal(delivered{turn})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "trace")
	}
	_, err = l.write(newFrame(typeDelivered, head), func(int64) { l.index.deliver(turn) })
	return err
}

// write puts a frame at the end of the file and returns its number for the committer. What a failed write left is cut off
// again, so that the file never has a hole.
func (l *Log) write(f frame, note func(at int64)) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return 0, l.broken
	}
	if err := writeAt(l.file, f, l.end); err != nil {
		if cut := l.file.Truncate(l.end); cut != nil {
			l.broken = fault.Wrap(fault.Internal, errors.Join(err, cut), "trace is broken")
		}
		return 0, fault.Wrap(fault.Internal, err, "write trace")
	}
	note(l.end)
	l.end += f.size()
	return l.commit.wrote(), nil
}

// Close closes the file. Closing twice is harmless.
func (l *Log) Close() error {
	if err := l.file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("close trace: %w", err)
	}
	return nil
}
