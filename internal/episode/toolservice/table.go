// Package toolservice is the tool service of a host: its open episodes and its HTTP API.
package toolservice

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Table is the episodes of a host, by the ids of their sandboxes. It is safe for concurrent use.
type Table struct {
	// folder of the step logs
	dir string

	mu sync.Mutex

	// nil: its step log is being read
	open map[string]*Episode

	// closed and replaced when an episode accepts calls
	changed chan struct{}
}

// NewTable makes a Table that keeps its step logs in dir.
func NewTable(dir string) *Table {
	return &Table{dir: dir, open: map[string]*Episode{}, changed: make(chan struct{})}
}

// Open lets the sandbox take calls until closeIt is called, which cancels the running calls and waits for
// them. It continues the step log of an earlier worker of the host. The error is a fault.Conflict if the
// sandbox is open.
func (t *Table) Open(o Options) (_ *Episode, closeIt func() error, err error) {
	if !t.reserve(o.ID) {
		return nil, nil, fault.New(fault.Conflict, "sandbox %s takes calls already", o.ID)
	}

	log := o.ID
	if o.Scoring {
		log += scoring
	}

	// which may be long: other episodes do not wait for it
	e, err := newEpisode(t.path(log), o)

	t.mu.Lock()
	defer t.mu.Unlock()

	if err != nil {
		delete(t.open, o.ID)
		return nil, nil, err
	}

	t.open[o.ID] = e

	e.accept = func() {
		t.mu.Lock()
		defer t.mu.Unlock()

		t.accept(e)
	}
	if !o.WaitForAccept {
		t.accept(e)
	}

	return e, func() error { return t.close(e) }, nil
}

// reserve keeps the place of an episode that is being opened; false: it is taken.
func (t *Table) reserve(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	if _, taken := t.open[id]; taken {
		return false
	}

	t.open[id] = nil

	return true
}

// accept lets requests find the episode; t.mu is held.
func (t *Table) accept(e *Episode) {
	if !e.accepting {
		e.accepting = true

		close(t.changed)
		t.changed = make(chan struct{})
	}
}

func (t *Table) close(e *Episode) error {
	err := e.close()

	t.mu.Lock()
	defer t.mu.Unlock()

	delete(t.open, e.o.ID)

	return err
}

// Get returns the open episode of a sandbox. It waits at most for wait until the episode is opened and
// accepts calls; then the error is a fault.Unavailable.
func (t *Table) Get(ctx context.Context, id string, wait time.Duration) (*Episode, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()

	for {
		t.mu.Lock()
		e, changed := t.open[id], t.changed
		accepting := e != nil && e.accepting
		t.mu.Unlock()

		if accepting {
			return e, nil
		}

		select {
		case <-changed:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}

		return nil, fault.New(fault.Unavailable, "sandbox %s takes no calls", id)
	}
}

// Log opens the step log of a sandbox; fault.NotFound without one. The caller closes it.
func (t *Table) Log(id string) (*os.File, error) {
	f, err := os.Open(t.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "sandbox %s has no step log", id)
	}

	return f, fault.Wrap(fault.Internal, err, "step log")
}

// Forget deletes the step logs of a sandbox. Without one it is a no-op.
func (t *Table) Forget(id string) error {
	for _, log := range []string{id, id + scoring} {
		if err := os.Remove(t.path(log)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.Internal, err, "step log")
		}
	}

	return nil
}

// ForgetEarlier deletes the step logs of a sandbox that began before then, when it did: they are of an
// earlier sandbox with its id.
func (t *Table) ForgetEarlier(id string, then time.Time) error {
	return errors.Join(dropEarlier(t.path(id), then), dropEarlier(t.path(id+scoring), then))
}

// Logs lists the sandboxes that have a step log.
func (t *Table) Logs() ([]string, error) {
	entries, err := os.ReadDir(t.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	var ids []string

	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), suffix); ok {
			ids = append(ids, id)
		}
	}

	return ids, fault.Wrap(fault.Internal, err, "step logs")
}

// scoring is appended to the sandbox's id in the name of a log of a client that grades.
const scoring = ".scoring"

const suffix = ".jsonl"

func (t *Table) path(id string) string { return filepath.Join(t.dir, filepath.Base(id)+suffix) }

// dropEarlier deletes a log that began before then.
func dropEarlier(path string, then time.Time) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return fault.Wrap(fault.Internal, err, "step log")
	}

	var first episode.Step

	err = json.NewDecoder(f).Decode(&first)
	// it was read only
	_ = f.Close()

	if err == nil && first.At.Before(then) {
		return fault.Wrap(fault.Internal, os.Remove(path), "delete an earlier step log")
	}

	return nil
}
