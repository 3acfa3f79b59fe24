// Package idempotent runs each call once by its id and keeps its result: a repeated call returns the first
// result and runs nothing. Calls run in parallel.
//
// The newest results are kept, up to a bound in bytes. A call whose result was dropped is not run again; it fails.
package idempotent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Bounds of one Table.
const (
	// including those whose results were dropped
	maxCalls = 20_000
	maxBytes = 32 << 20

	// bytes of an id
	maxID = 128
)

// Table holds calls by id, with results of type R.
type Table[R any] struct {
	size func(R) int

	mu    sync.Mutex
	calls map[string]*call[R]

	// size of the kept results
	bytes int

	// number of ended calls
	ends int

	// in the order of their ends; may include deleted ones
	results []keptResult
}

type keptResult struct {
	id  string
	end int
}

// call is one call under its id.
type call[R any] struct {
	// digest of the request
	digest [sha256.Size]byte
	cancel context.CancelFunc

	// closed when result and err are final
	done   chan struct{}
	result R
	err    error
	bytes  int

	// its number in the order of ends; 0: it is running, or its result was dropped
	end int
}

// New returns a Table; size returns the memory of a result in bytes.
func New[R any](size func(R) int) *Table[R] {
	return &Table[R]{size: size, calls: map[string]*call[R]{}}
}

// Run runs do, or attaches to the call of that id, and returns its result. It returns running after wait or
// when ctx ends; the call continues. The same id with another request is a fault.Conflict. do gets a
// context that ends when the call is deleted, and must return soon after. An error of do is kept if the
// request or the sandbox's program caused it, so that a repeated call fails in the same way. After any
// other error the id is free.
func (t *Table[R]) Run(
	ctx context.Context, id string, request any, wait time.Duration, do func(context.Context) (R, error),
) (result R, running bool, err error) {
	c, err := t.startCall(id, request, do)
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

// startCall returns the call of that id, or starts it.
func (t *Table[R]) startCall(id string, request any, do func(context.Context) (R, error)) (*call[R], error) {
	if !wire.Name(id, maxID) {
		return nil, fault.Field("id",
			"%.140q must be 1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit",
			id)
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

	if len(t.calls) >= maxCalls {
		return nil, fault.New(fault.Exhausted, "%d calls were made: delete some of them", len(t.calls))
	}

	ctx, cancel := context.WithCancel(context.Background())
	c := &call[R]{digest: digest, cancel: cancel, done: make(chan struct{})}
	t.calls[id] = c
	// ends with do
	go func() {
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
	case c.err != nil && !ofCall(c.err):
		delete(t.calls, id)
	default:
		c.bytes = t.size(c.result)
		t.bytes += c.bytes
		t.ends++
		c.end = t.ends
		t.results = append(t.results, keptResult{id, t.ends})
	}

	close(c.done)
	t.dropOldest()
}

// ofCall reports whether a call failed because of its request or of the program in the sandbox.
func ofCall(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Exhausted, fault.OutOfMemory, fault.OutOfDisk, fault.Timeout:
		return true
	default:
		return false
	}
}

// dropOldest drops the oldest results to make room; the newest stays. t.mu is held.
func (t *Table[R]) dropOldest() {
	if len(t.results) > 2*maxCalls {
		t.results = slices.DeleteFunc(t.results, func(k keptResult) bool { return !t.keeps(k) })
	}

	for t.bytes > maxBytes && len(t.results) > 1 {
		oldest := t.results[0]

		t.results = t.results[1:]
		if t.keeps(oldest) {
			t.dropResult(oldest.id)
		}
	}
}

// keeps reports whether the call of a kept result still exists.
func (t *Table[R]) keeps(k keptResult) bool {
	c := t.calls[k.id]
	return c != nil && c.end == k.end
}

func (t *Table[R]) dropResult(id string) {
	old := t.calls[id]
	t.bytes -= old.bytes
	dropped := &call[R]{digest: old.digest, cancel: func() {}, done: make(chan struct{})}
	dropped.err = fault.New(fault.Exhausted, "call %q has run, and its result was dropped to make room for later ones",
		id)
	close(dropped.done)
	t.calls[id] = dropped
}

// Delete ends the call if it still runs, waits for its end, and removes it. An unknown id is not an error.
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
