package tools

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// startedRollout is a rollout that a call has started; abort: it ends when the client leaves.
type startedRollout struct {
	state rollout.State
	id    string
	abort bool
}

// startRollout reads the arguments and starts the rollout.
func (t *Table) startRollout(ctx context.Context, c Call) (startedRollout, error) {
	args := defaultRolloutArgs(t.o.Agents[0])
	if err := t.decode(c, &args); err != nil {
		return startedRollout{}, err
	}

	b := startedRollout{abort: args.OnDisconnect == onDisconnectAbort}
	if b.abort && c.Session == nil && c.Tool == startRollout {
		// Without a session the server cannot detect that this client leaves.
		return b, fault.Field("on_disconnect",
			`"abort" needs a session to end: call start_rollout over a WebSocket or with a session_id`)
	}

	spec, err := t.spec(args)
	if err != nil {
		return b, err
	}

	b.id = spec.ID
	if c.Session != nil {
		if b.abort {
			c.Session.Watch(b.id)
		}

		if err := c.Session.Started(ctx, b.id); err != nil {
			return b, err
		}
	}

	b.state, err = t.o.Rollouts.Start(ctx, spec)
	if err == nil {
		return b, nil
	}
	// the rollout may have started
	if ctx.Err() != nil {
		return b, t.interruptedRollout(ctx, c, b.id, b.abort)
	}

	if c.Session != nil {
		c.Session.Unwatch(b.id)
	}

	return b, err
}

func (t *Table) run(ctx context.Context, c Call) (*Text, error) {
	res, err := t.Await(ctx, c)
	// a task may have megabytes, and reading the result takes time
	c.Args = nil

	if err != nil {
		return nil, err
	}

	return t.deliver(ctx, c, res)
}

// Await starts a rollout from the arguments of run_rollout, or finds it, and returns the head of its result
// once it is done.
func (t *Table) Await(ctx context.Context, c Call) (rollout.Result, error) {
	c.Tool = runRollout
	b, err := t.startRollout(ctx, c)
	// a task may have megabytes, and the wait may be long
	c.Args = nil

	if err != nil {
		return rollout.Result{}, err
	}

	res, err := t.o.Rollouts.Wait(ctx, b.id)
	if err != nil && ctx.Err() != nil {
		err = t.interruptedRollout(ctx, c, b.id, b.abort)
	}

	return res, err
}

func (t *Table) start(ctx context.Context, c Call) (*Text, error) {
	b, err := t.startRollout(ctx, c)
	if err != nil {
		return nil, err
	}

	return Write(Started{b.id, b.state.TaskID, "starting", unix(b.state.StartedAt)})
}

// Started is the answer of start_rollout.
type Started struct {
	RolloutID string  `json:"rollout_id"`
	TaskID    string  `json:"task_id"`
	Status    string  `json:"status" const:"starting"`
	StartedAt float64 `json:"started_at" description:"time in seconds since 1970"`
}

// deliver returns a result for the client and records it in the session.
func (t *Table) deliver(ctx context.Context, c Call, res rollout.Result) (*Text, error) {
	out, err := t.Result(ctx, res.ID)
	if err != nil {
		return nil, err
	}

	c.Delivered(res)

	return out, nil
}

// Delivered records in the session that its client gets a result.
func (c Call) Delivered(res rollout.Result) {
	if c.Session != nil {
		c.Session.Unwatch(res.ID)
		c.Session.Finished(res)
	}
}
