package network

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxLog bounds the log of a sandbox, in bytes. Connections beyond it are not logged one by one.
const maxLog = 8 << 20

// connLog appends entries to the log of a sandbox, one line each. A worker that is killed loses no entry of
// an ended connection.
type connLog struct {
	mu   sync.Mutex
	file *os.File
	size int64

	// the first of a write
	err error
}

// line is an Entry with its phase.
type line struct {
	Phase string `json:"phase"`
	ProxyEntry
}

func (s *Service) path(id string) string { return filepath.Join(s.Dir, id+".jsonl") }

func (s *Service) open(id string) (*connLog, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}

	file, err := os.OpenFile(s.path(id), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return &connLog{file: file, size: info.Size()}, nil
}

func (l *connLog) add(phase string, e ProxyEntry) {
	text, err := json.Marshal(line{phase, e})

	l.mu.Lock()
	defer l.mu.Unlock()

	switch {
	case l.err != nil || l.size > maxLog:
	case err != nil:
		l.err = err
	default:
		if l.size += int64(len(text)) + 1; l.size > maxLog {
			text = []byte(`{"truncated":true}`)
		}

		_, l.err = l.file.Write(append(text, '\n'))
	}
}

func (l *connLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()

	return errors.Join(l.err, l.file.Close())
}

// Log reads the log of a sandbox's connections, JSON lines; fault.NotFound where there is none.
func (s *Service) Log(id string) (io.ReadCloser, error) {
	file, err := os.Open(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "sandbox %q has no log of connections", id)
	}

	return file, fault.Wrap(fault.Unavailable, err, "log of connections")
}

// Forget removes the log of a sandbox; one that is not there is no error.
func (s *Service) Forget(id string) error {
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Unavailable, err, "log of connections")
	}

	return nil
}

// ForgetEarlier removes the log of a sandbox if it was last written before then: it is of an earlier sandbox with its id.
func (s *Service) ForgetEarlier(id string, then time.Time) error {
	info, err := os.Stat(s.path(id))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.ModTime().Before(then) {
		return nil
	}

	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "log of connections")
	}

	return s.Forget(id)
}
