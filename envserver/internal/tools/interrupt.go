package tools

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// errLimit is the cause when a call's own limit ends it.
var errLimit = errors.New("the call's time limit")

// abortTimeout bounds the aborts on behalf of a client that is gone.
const abortTimeout = 10 * time.Second

// goneReason is the reason of an abort on behalf of a client that is gone.
const goneReason = "the client went away (on_disconnect: abort)"

// interrupted says why a call ended before its work, and what the client can do about the rollout that goes on.
func interrupted(ctx context.Context, c Call, rolloutID string) error {
	hint := ""
	if rolloutID != "" {
		hint = fmt.Sprintf("; rollout %s goes on: call finalize_rollout with rollout_id %q for its result", rolloutID, rolloutID)
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errLimit):
		return fault.New(fault.Timeout, "Tool '%s' timed out after %s seconds%s", c.Tool, pythonFloat(c.Limit.Seconds()), hint)
	case errors.Is(cause, ErrGone):
		return fault.New(fault.Aborted, "%v during tool '%s'%s", cause, c.Tool, hint)
	default:
		return fault.New(fault.Unavailable, "tool '%s' ended early: %v%s", c.Tool, cause, hint)
	}
}

// pythonFloat writes a float as Python does: whole ones with ".0".
func pythonFloat(f float64) string {
	s := fmt.Sprintf("%g", f)
	if f == float64(int64(f)) {
		s = fmt.Sprintf("%.1f", f)
	}
	return s
}

// left handles a rollout whose caller's call has ended early: with on_disconnect "abort", a client that is gone takes the
// rollout with it.
func (t *Table) left(ctx context.Context, c Call, id string, abort bool) error {
	if abort && errors.Is(context.Cause(ctx), ErrGone) {
		t.Abandon(ctx, id)
		if c.Session != nil {
			c.Session.Unwatch(id)
		}
	}
	return interrupted(ctx, c, id)
}

// Abandon aborts rollouts whose client is gone. It outlives ctx, which has ended by then, but not abortTimeout.
func (t *Table) Abandon(ctx context.Context, ids ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	for _, id := range ids {
		// A rollout that cannot be aborted now runs to its own deadline; its client is gone.
		_, _ = t.o.Rollouts.Abort(ctx, id, goneReason)
	}
}
