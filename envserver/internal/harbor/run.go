package harbor

import (
	"context"
	"errors"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxText bounds a result, in bytes of its JSON.
const maxText = 128 << 20

// run runs a rollout. A failed rollout is a result with the reason, never an error, because clients take an
// error for a server that is unreachable. Arguments that cannot be read, and a call that ended before its
// rollout, are errors.
func (e *Env) run(ctx context.Context, c tools.Call) (*tools.Text, error) {
	a, err := readArgs(c.Args)
	if err != nil {
		return nil, err
	}

	p, err := e.plan(a)

	var unknown *harnessError
	switch {
	case errors.As(err, &unknown):
		p.findings = append(p.findings, "[FATAL] unknown_harness: "+err.Error())
		return tools.Write(failed(p, err))
	case err != nil:
		return tools.Write(failed(p, err))
	}

	c.Args = p.args
	head, err := e.o.Table.Await(ctx, c)
	// a task may be megabytes
	c.Args, p.args = nil, map[string]any{"purpose": p.args["purpose"]}

	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return tools.Write(failed(p, err))
	}

	if err := e.results.Acquire(ctx, 1); err != nil {
		return nil, fault.Wrap(fault.Unavailable, context.Cause(ctx), "rollout %s is done; its result", head.ID)
	}

	defer e.results.Release(1)

	turns, err := e.capture(ctx, head.ID)
	if err != nil {
		return nil, fault.Wrap(fault.KindOf(err), err, "rollout %s is done; its trace", head.ID)
	}

	text, err := tools.Write(finished(p, head, turns))
	switch {
	case err != nil:
		return nil, err
	case len(text.JSON) > maxText:
		return nil, fault.New(fault.Exhausted,
			"the result has more than %d MiB: read the trace from /rollouts/%s/trace",
			maxText>>20, head.ID)
	}
	// only Quoted is sent
	text.JSON = nil

	c.Delivered(head)

	return text, nil
}
