package tools

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// errLimit is the cause of a call that its time limit ended.
var errLimit = errors.New("the call's time limit")

// abortTimeout bounds the aborts after a client has left.
const abortTimeout = 10 * time.Second

// goneReason is the reason of an abort after the client has left.
const goneReason = "the client went away (on_disconnect: abort)"

// interrupted returns the error of a call that ended early: the cause, and how the client gets the result
// of the rollout, which continues.
func interrupted(ctx context.Context, c Call, rolloutID string) error {
	hint := ""
	if rolloutID != "" {
		hint = fmt.Sprintf("; rollout %s goes on: call finalize_rollout with rollout_id %q for its result",
			rolloutID, rolloutID)
	}

	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errLimit):
		return fault.New(fault.Timeout, "Tool '%s' timed out after %s seconds%s",
			c.Tool, pythonFloat(c.Limit.Seconds()), hint)
	case errors.Is(cause, ErrGone):
		return fault.New(fault.Aborted, "%v during tool '%s'%s", cause, c.Tool, hint)
	default:
		return fault.New(fault.Unavailable, "tool '%s' ended early: %v%s", c.Tool, cause, hint)
	}
}

// pythonFloat writes a float as Python does: a whole number with ".0".
func pythonFloat(f float64) string {
	s := fmt.Sprintf("%g", f)
	if f == float64(int64(f)) {
		s = fmt.Sprintf("%.1f", f)
	}

	return s
}

// interruptedRollout handles a rollout whose call has ended early. With on_disconnect "abort" it aborts the
// rollout of a client that has left.
func (t *Table) interruptedRollout(ctx context.Context, c Call, id string, abort bool) error {
	if abort && errors.Is(context.Cause(ctx), ErrGone) {
		t.Abandon(ctx, id)

		if c.Session != nil {
			c.Session.Unwatch(id)
		}
	}

	return interrupted(ctx, c, id)
}

// Abandon aborts rollouts whose client has left. It continues after ctx has ended, for abortTimeout at most.
func (t *Table) Abandon(ctx context.Context, ids ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()

	for _, id := range ids {
		// If the abort fails, the rollout ends at its own deadline.
		_, _ = t.o.Rollouts.Abort(ctx, id, goneReason)
	}
}
