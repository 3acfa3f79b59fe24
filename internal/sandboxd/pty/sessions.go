package pty

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/idempotent"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Bounds of the shells of a sandbox.
const (
	maxSessions = 8

	// bounds one call
	maxTime = time.Hour
)

// Sessions are the shells of a sandbox by name.
type Sessions struct {
	processes *process.Table
	calls     *idempotent.Table[wire.PTYAnswer]

	mu      sync.Mutex
	byName  map[string]*session
	started int
}

// New returns a Sessions that starts its shells in p.
func New(p *process.Table) *Sessions {
	return &Sessions{
		processes: p,
		calls:     idempotent.New(func(a wire.PTYAnswer) int { return len(a.Text) + a.Output.Len() + len(a.Error) }),
		byName:    map[string]*session{},
	}
}

// Call makes one call once under its id, and returns its answer, or Running after wait; see idempotent.Table.
func (t *Sessions) Call(
	ctx context.Context,
	name, id string,
	c wire.PTYCall,
	wait time.Duration,
) (wire.PTYAnswer, error) {
	if !wire.Name(name, 32) {
		return wire.PTYAnswer{}, fault.Field("name",
			"%.40q must be 1 to 32 letters, digits, '.', '_' or '-', the first a letter or digit",
			name)
	}

	a, running, err := t.calls.Run(ctx, id, []any{name, c}, wait, func(ctx context.Context) (wire.PTYAnswer, error) {
		return t.do(ctx, name, c)
	})
	a.Running = running

	return a, err
}

// Delete ends the shell of that name with its descendants, and removes it with its recording; another may
// then be started. An unknown name is not an error. Answers to calls are kept.
func (t *Sessions) Delete(name string) error {
	t.mu.Lock()
	s := t.byName[name]
	delete(t.byName, name)
	t.mu.Unlock()

	if s == nil {
		return nil
	}

	return t.processes.Kill(s.process)
}

func (t *Sessions) do(ctx context.Context, name string, c wire.PTYCall) (wire.PTYAnswer, error) {
	switch c.Action {
	case wire.PTYStart, wire.PTYRun, wire.PTYKeys:
		if err := checkCommand(c.Command); err != nil {
			return wire.PTYAnswer{Error: err.Error()}, nil
		}

		s, err := t.open(name, c)
		if err != nil {
			return wire.PTYAnswer{}, err
		}

		return t.act(ctx, s, c), nil
	case wire.PTYCapture, wire.PTYStream, wire.PTYStop:
	default:
		return wire.PTYAnswer{}, fault.Field("action", "unknown action %q", c.Action)
	}

	t.mu.Lock()
	s := t.byName[name]
	t.mu.Unlock()

	if s == nil {
		return wire.PTYAnswer{Error: "no shell was started"}, nil
	}

	switch c.Action {
	case wire.PTYCapture:
		return s.capture(c.Entire), nil
	case wire.PTYStream:
		return s.stream(c), nil
	default:
		return wire.PTYAnswer{Ended: true}, t.processes.Kill(s.process)
	}
}

func (t *Sessions) act(ctx context.Context, s *session, c wire.PTYCall) wire.PTYAnswer {
	switch c.Action {
	case wire.PTYRun:
		return s.run(ctx, t.processes, c.Command, limit(c.TimeoutMillis))
	case wire.PTYKeys:
		return s.keys(ctx, c)
	default:
		cols, rows := s.resize(c.Cols, c.Rows)
		return wire.PTYAnswer{Cols: cols, Rows: rows}
	}
}

func limit(ms int64) time.Duration {
	return min(time.Duration(min(ms, maxTime.Milliseconds()))*time.Millisecond, maxTime)
}

// open returns the living shell of that name, or starts one.
func (t *Sessions) open(name string, c wire.PTYCall) (*session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if s := t.byName[name]; s != nil && !s.shellEnded() {
		return s, nil
	}

	if t.byName[name] == nil && len(t.byName) >= maxSessions {
		return nil, fault.New(fault.Invalid, "%d shells were started already", maxSessions)
	}

	t.started++
	cols, rows := size(c.Cols, 120, 20, 500), size(c.Rows, 40, 10, 200)

	s, err := open(t.processes, fmt.Sprintf("pty-%d", t.started), c.Shell, cols, rows)
	if err != nil {
		return nil, fault.Wrap(fault.KindOf(err), err, "start shell %q", name)
	}

	t.byName[name] = s

	return s, nil
}

func size(n, usual, least, most int) int {
	if n == 0 {
		return usual
	}

	return min(max(n, least), most)
}

// resize sets the size of the screen, and returns it; 0: unchanged.
func (s *session) resize(cols, rows int) (nowCols, nowRows int) {
	s.mu.Lock()
	defer s.mu.Unlock()

	cols, rows = size(cols, s.cols, 20, 500), size(rows, s.rows, 10, 200)
	if cols == s.cols && rows == s.rows {
		return cols, rows
	}

	s.cols, s.rows = cols, rows
	// fails if the shell has ended, which the next call reports
	_ = s.setSize()
	s.recording.resize(cols, rows)
	s.screen.resize(cols, rows)

	return cols, rows
}

// keys types keys.
func (s *session) keys(ctx context.Context, c wire.PTYCall) wire.PTYAnswer {
	// the shell may have just started
	s.wait(ctx, promptTime, func() bool { return s.prompts > 0 })
	s.mu.Lock()
	prompts := s.prompts

	text := encode(c.Keys, s.screen.applicationKeys())
	if strings.ContainsAny(text, "\r\n") {
		s.idle = false
	}
	s.mu.Unlock()

	if err := s.write(text, writeTime); err != nil {
		return wire.PTYAnswer{Error: "the program in the shell does not read its input", Ended: s.shellEnded()}
	}

	never := func() bool { return false }
	if c.MinWaitMillis > 0 {
		s.wait(ctx, limit(c.MinWaitMillis), never)
	}

	var answer wire.PTYAnswer
	if c.Block {
		answer.TimedOut = !s.wait(ctx, limit(c.TimeoutMillis), func() bool { return s.prompts > prompts }) &&
			!s.shellEnded()
	}

	answer.Ended = s.shellEnded()

	return answer
}

// capture returns the screen, or the whole output, within bounds.
func (s *session) capture(entire bool) wire.PTYAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()

	a := wire.PTYAnswer{Cols: s.cols, Rows: s.rows, Ended: s.shellEnded()}
	if entire {
		head, tail, omitted := s.all.Ends()
		a.Output = wire.Output{Head: head, Tail: tail, Omitted: omitted}

		return a
	}

	text, ok := s.screen.text(s.cols, s.rows)
	if !ok {
		a.Error = "the screen is not known: the program printed what the terminal emulator cannot show"
	}

	a.Text = []byte(text)

	return a
}

// stream returns new lines of the recording.
func (s *session) stream(c wire.PTYCall) wire.PTYAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()

	text, offset := s.recording.next(size(c.MaxBytes, 50_000, 1, 200_000), c.Reset)

	return wire.PTYAnswer{Text: text, Offset: offset, Ended: s.shellEnded()}
}
