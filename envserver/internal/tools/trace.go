package tools

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Bounds of one answer of get_trace.
const (
	// a larger turn is returned alone
	maxTraceBytes = 16 << 20
	maxTraceTurns = 1000
)

type traceArgs struct {
	idArgs
	Cursor int `json:"cursor,omitempty" jsonschema:"position to continue from: next of the previous answer. 0: the first turn"`
	Limit  int `json:"limit,omitempty" jsonschema:"largest number of turns to return"`
}

// traceAnswer is a part of a trace.
type traceAnswer struct {
	RolloutID string `json:"rollout_id"`

	// each a rollout.Turn
	Turns []json.RawMessage `json:"turns"`

	// cursor of the turns after these; null: there are none
	Next *int `json:"next"`
}

// getTrace returns complete turns of a finished rollout's trace.
func (t *Table) getTrace(ctx context.Context, c Call) (*Text, error) {
	a := traceArgs{Limit: maxTraceTurns}
	if err := t.decode(c, &a); err != nil {
		return nil, err
	}

	switch {
	case a.Cursor < 0:
		return nil, fault.Field("cursor", "must not be negative, got %d", a.Cursor)
	case a.Limit < 1 || a.Limit > maxTraceTurns:
		return nil, fault.Field("limit", "must be 1 to %d, got %d", maxTraceTurns, a.Limit)
	}

	s, err := t.o.Rollouts.State(ctx, a.RolloutID)
	if err != nil {
		return nil, err
	}

	if !s.Done() {
		return nil, fault.New(fault.Conflict, "rollout %q is not done: the trace is available when it is", a.RolloutID)
	}

	r, err := t.o.Rollouts.Open(ctx, a.RolloutID, "trace")
	if err != nil {
		return nil, err
	}
	defer r.Close()

	out, err := a.read(r)
	if err != nil {
		return nil, err
	}

	return Write(out)
}

// read reads the requested turns. Besides them one line is in memory.
func (a traceArgs) read(r io.Reader) (traceAnswer, error) {
	out := traceAnswer{RolloutID: a.RolloutID, Turns: []json.RawMessage{}}

	lines, size := bufio.NewReaderSize(r, 64<<10), 0
	for n := 0; ; n++ {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 && n >= a.Cursor {
			if size += len(line); len(out.Turns) == a.Limit || len(out.Turns) > 0 && size > maxTraceBytes {
				out.Next = &n
				return out, nil
			}

			out.Turns = append(out.Turns, line)
		}

		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return out, fault.Wrap(fault.Unavailable, err, "read the trace of %q", a.RolloutID)
		}
	}
}
