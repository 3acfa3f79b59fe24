package exec

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Bounds of the results that are kept.
const (
	maxCalls = 20_000
	maxBytes = 48 << 20
)

// Table is the calls of a sandbox by id.
type Table struct {
	processes *process.Table
	ids       *regexp.Regexp

	mu      sync.Mutex
	calls   map[string]*call
	bytes   int // of the results that are kept
	started int
}

// call is one command under its id.
type call struct {
	digest [sha256.Size]byte // of the command
	name   string            // of its process
	done   chan struct{}     // closed when result and err are final
	result wire.ExecResult
	err    error
	bytes  int
}

// New makes a Table that starts its commands in p.
func New(p *process.Table) *Table {
	return &Table{
		processes: p,
		ids:       regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`),
		calls:     map[string]*call{},
	}
}

// Run runs the command, or attaches to the one of that id, and returns its result at its end, or after wait with Running. It also
// returns when ctx ends; the command goes on. The same id with another command is a fault.Conflict.
func (t *Table) Run(ctx context.Context, id string, e wire.Exec, wait time.Duration) (wire.ExecResult, error) {
	c, fresh, err := t.call(id, e)
	if err != nil {
		return wire.ExecResult{}, err
	}
	if fresh {
		go t.run(id, c, e) // ends with the command, which its timeout or the sandbox's end bounds
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.result, c.err
	case <-timer.C:
	case <-ctx.Done():
	}
	return wire.ExecResult{Status: wire.Status{Name: id, Running: true}}, nil
}

// call finds the call of that id, or makes it.
func (t *Table) call(id string, e wire.Exec) (c *call, fresh bool, err error) {
	if !t.ids.MatchString(id) {
		return nil, false, fault.Field("id", "%.140q must be 1 to 128 letters, digits, '.', '_' or '-', the first a letter or digit", id)
	}
	text, err := json.Marshal(e)
	if err != nil {
		return nil, false, err
	}
	digest := sha256.Sum256(text)
	t.mu.Lock()
	defer t.mu.Unlock()
	if c = t.calls[id]; c != nil {
		if c.digest != digest {
			return nil, false, fault.New(fault.Conflict, "call %q ran another command already", id)
		}
		return c, false, nil
	}
	if len(t.calls) >= maxCalls || t.bytes >= maxBytes {
		return nil, false, fault.New(fault.Exhausted, "the results of %d calls are kept (%d bytes): delete some of them", len(t.calls), t.bytes)
	}
	t.started++
	c = &call{digest: digest, name: fmt.Sprintf("exec-%d", t.started), done: make(chan struct{})}
	t.calls[id] = c
	return c, true, nil
}

// run runs the command of a call to its end.
func (t *Table) run(id string, c *call, e wire.Exec) {
	p, err := t.processes.Start(c.name, e.Process)
	if err == nil {
		if t.deleted(id, c) {
			_ = t.processes.Kill(p) // what outlives SIGKILL is waited for below
		}
		<-p.Done()
		c.result = result(id, p)
		t.processes.Delete(c.name)
	}
	c.err = err
	t.finish(id, c)
}

// finish makes the result final. A call whose command could not be started is not kept, since nothing ran, unless its command was
// wrong: then its error is the result.
func (t *Table) finish(id string, c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.err != nil && !fault.Is(c.err, fault.Invalid) {
		t.remove(id, c)
	} else if t.calls[id] == c {
		c.bytes = c.result.Stdout.Len() + c.result.Stderr.Len()
		t.bytes += c.bytes
	}
	close(c.done)
}

func (t *Table) deleted(id string, c *call) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[id] != c
}

func (t *Table) remove(id string, c *call) {
	if t.calls[id] == c {
		delete(t.calls, id)
		t.bytes -= c.bytes
	}
}

// Delete kills the command of a call when it still runs, and forgets the call. An unknown id is no error.
func (t *Table) Delete(id string) error {
	t.mu.Lock()
	c := t.calls[id]
	t.mu.Unlock()
	if c == nil {
		return nil
	}
	if p, err := t.processes.Get(c.name); err == nil {
		if err := t.processes.Kill(p); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(id, c)
	return nil
}

func result(id string, p *process.Process) wire.ExecResult {
	st := p.Status()
	st.Name = id
	return wire.ExecResult{Status: st, Stdout: output(p.Stream("stdout")), Stderr: output(p.Stream("stderr"))}
}

func output(o *process.Output) wire.Output {
	head, tail, omitted := o.Ends()
	return wire.Output{Head: head, Tail: tail, Omitted: omitted}
}
