package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Logs are the logs of a host, in one folder. It is safe for concurrent use. A nil *Logs keeps none.
type Logs struct {
	folder string
	logger *slog.Logger

	mu   sync.Mutex
	open map[string]*Log
}

// Open opens the folder, and creates it if missing.
func Open(folder string, logger *slog.Logger) (*Logs, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("event logs: %w", err)
	}

	return &Logs{folder: folder, logger: logger, open: map[string]*Log{}}, nil
}

// Of returns the log of an attempt. Its file is created with the first event.
func (l *Logs) Of(t rollout.Target) *Log {
	if l == nil {
		return nil
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	log, ok := l.open[t.SandboxID()]
	if !ok {
		log = newLog(
			filepath.Join(l.folder, t.SandboxID()+".jsonl"),
			t.Attempt,
			l.logger.With("rollout", t.RolloutID, "attempt", t.Attempt),
		)
		l.open[t.SandboxID()] = log
	}

	return log
}

// Find returns the log of an attempt; fault.NotFound if there is none.
func (l *Logs) Find(t rollout.Target) (*Log, error) {
	missing := fault.New(fault.NotFound, "this host has no event log of attempt %d of rollout %q",
		t.Attempt, t.RolloutID)
	if l == nil || rollout.CheckID(t.RolloutID) != nil {
		return nil, missing
	}

	l.mu.Lock()
	log, ok := l.open[t.SandboxID()]
	l.mu.Unlock()

	if ok {
		return log, nil
	}

	if _, err := os.Stat(filepath.Join(l.folder, t.SandboxID()+".jsonl")); err != nil {
		return nil, missing
	}

	return l.Of(t), nil
}

// Forget removes the log of an attempt if it was last written before a time: it is then of an earlier
// attempt with the same number.
func (l *Logs) Forget(t rollout.Target, before time.Time) error {
	if l == nil {
		return nil
	}

	info, err := os.Stat(filepath.Join(l.folder, t.SandboxID()+".jsonl"))
	if err != nil || !info.ModTime().Before(before) {
		// there is none, or it is the attempt's own
		return nil
	}

	return l.Remove(t)
}

// Remove ends the log of an attempt and deletes its file; a no-op if there is none.
func (l *Logs) Remove(t rollout.Target) error {
	if l == nil {
		return nil
	}

	l.mu.Lock()
	log := l.open[t.SandboxID()]
	delete(l.open, t.SandboxID())
	l.mu.Unlock()

	if log != nil {
		log.End()
	}

	err := os.Remove(filepath.Join(l.folder, t.SandboxID()+".jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}
