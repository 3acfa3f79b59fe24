package tools

import (
	"context"
	"errors"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// defaultWaitS is how long finalize_rollout waits by default.
const defaultWaitS = 300

type abortAnswer struct {
	RolloutID string `json:"rollout_id"`
	Aborted   bool   `json:"aborted"`
	Reason    string `json:"reason,omitempty"`
}

func (t *Table) abortRollout(ctx context.Context, c Call) (*Text, error) {
	id, err := t.rolloutID(c)
	if err != nil {
		return nil, err
	}

	aborted, err := t.o.Rollouts.Abort(ctx, id, "abort_rollout was called")
	switch {
	case fault.Is(err, fault.NotFound):
		return Write(abortAnswer{id, false, "unknown"})
	case err != nil:
		return nil, err
	case !aborted:
		return Write(abortAnswer{id, false, "already done"})
	}

	return Write(abortAnswer{RolloutID: id, Aborted: true})
}

func (t *Table) finalizeRollout(ctx context.Context, c Call) (*Text, error) {
	a := finalizeArgs{WaitS: defaultWaitS}
	if err := t.decode(c, &a); err != nil {
		return nil, err
	}

	wait, cancel := context.WithTimeoutCause(ctx, seconds(min(max(a.WaitS, 0), maxSeconds)), errLimit)
	defer cancel()

	res, err := t.o.Rollouts.Wait(wait, a.RolloutID)
	switch {
	case err == nil:
		return t.deliver(ctx, c, res)
	case fault.Is(err, fault.NotFound):
		return Write(unfinished(a.RolloutID, "unknown rollout_id: "+a.RolloutID))
	case wait.Err() == nil:
		return nil, err
	case errors.Is(context.Cause(wait), errLimit):
		// wait_s or the limit of the call has passed: the tool may be called again.
		return Write(unfinished(a.RolloutID, fmt.Sprintf("timeout waiting for rollout_id=%s", a.RolloutID)))
	}

	return nil, interrupted(ctx, c, a.RolloutID)
}

// unfinished returns a result with only an error; its lists and maps are empty rather than null, for typed clients.
func unfinished(id, why string) rollout.Result {
	return rollout.Result{
		ID: id, Mode: rollout.TransparentProxy, Error: &why, ExitCode: -1,
		ProxyTurns: []rollout.CompactTurn{}, WorkdirFiles: map[string]string{},
		SetupResults: []rollout.CommandResult{}, VerifyResults: []rollout.CommandResult{},
		Files: map[string]string{}, FilesExtra: []string{},
		Attempts: []rollout.Attempt{}, Links: map[string]string{},
	}
}
