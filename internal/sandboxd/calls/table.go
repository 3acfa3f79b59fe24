// Package calls runs each call once by its id, and keeps its result: a call that is made again returns the result of the first, and
// runs nothing. Calls do not wait for each other.
package calls

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Bounds of the results that one Table keeps.
const (
	maxCalls = 20_000
	maxBytes = 32 << 20
	maxID    = 128 // bytes of an id
)

// Table is calls by id, with results of type R.
type Table[R any] struct {
	size func(R) int

	mu    sync.Mutex
	calls map[string]*call[R]
	bytes int // of the results that are kept
}

// call is one call under its id.
type call[R any] struct {
	digest [sha256.Size]byte // of the request
	cancel context.CancelFunc
	done   chan struct{} // closed when result and err are final
	result R
	err    error
	bytes  int
}

// New makes a Table; size is the memory of a result in bytes.
func New[R any](size func(R) int) *Table[R] {
	return &Table[R]{size: size, calls: map[string]*call[R]{}}
}

// Run runs do, or attaches to the call of that id, and returns its result at its end. It returns running after wait, or when ctx
// ends; the call goes on. The same id with another request is a fault.Conflict. do gets a context that ends when the call is
// deleted, and must return soon after that. An error of do is kept when it is a fault.Invalid: else nothing ran, and the id is free.
func (t *Table[R]) Run(
	ctx context.Context, id string, request any, wait time.Duration, do func(context.Context) (R, error),
) (result R, running bool, err error) {
	c, err := t.begin(id, request, do)
	if err != nil {
		return result, false, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.result, false, c.err
	case <-timer.C:
	case <-ctx.Done():
	}
	return result, true, nil
}

// begin finds the call of that id, or starts it.
func (t *Table[R]) begin(id string, request any, do func(context.Context) (R, error)) (*call[R], error) {
	if !wire.Name(id, maxID) {
		return nil, fault.Field("id", "%.140q must be 1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit", id)
	}
	text, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.calls[id]; c != nil {
		if c.digest != digest {
			return nil, fault.New(fault.Conflict, "call %q had another request", id)
		}
		return c, nil
	}
	if len(t.calls) >= maxCalls || t.bytes >= maxBytes {
		return nil, fault.New(fault.Exhausted, "the results of %d calls are kept (%d bytes): delete some of them", len(t.calls), t.bytes)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &call[R]{digest: digest, cancel: cancel, done: make(chan struct{})}
	t.calls[id] = c
	go func() { // ends with do
		defer cancel()
		c.result, c.err = do(ctx)
		t.finish(id, c)
	}()
	return c, nil
}

func (t *Table[R]) finish(id string, c *call[R]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.calls[id] != c: // deleted
	case c.err != nil && !fault.Is(c.err, fault.Invalid):
		delete(t.calls, id)
	default:
		c.bytes = t.size(c.result)
		t.bytes += c.bytes
	}
	close(c.done)
}

// Delete ends the call when it still runs, waits for its end, and forgets it. An unknown id is no error.
func (t *Table[R]) Delete(ctx context.Context, id string) error {
	t.mu.Lock()
	c := t.calls[id]
	delete(t.calls, id)
	if c != nil {
		t.bytes -= c.bytes
	}
	t.mu.Unlock()
	if c == nil {
		return nil
	}
	c.cancel()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
