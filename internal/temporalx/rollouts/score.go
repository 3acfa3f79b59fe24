package rollouts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// Score grades a rollout whose verifier is external. The error is a fault.Conflict when the rollout awaits
// no score, and a fault.Invalid when its verifier does not allow this score. The same score again is no
// error.
func (c *Client) Score(ctx context.Context, id string, s rollout.Score) error {
	state, err := c.State(ctx, id)
	if err != nil {
		return err
	}
	// A repeated request has the same id, and another attempt has another: Temporal answers a known id
	// without asking the workflow.
	update := fmt.Sprintf("score-%d-%g", state.Attempt, s.Score)
	if len(s.Rewards)+len(s.Turns) > 0 {
		update += "-" + digestOf(s)
	}

	handle, err := c.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: rollout.WorkflowID(id), UpdateID: update, UpdateName: rollout.UpdateScore, Args: []any{s},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}

	if err == nil {
		return nil
	}

	if refused := failure.FromTemporal(err); fault.Is(refused, fault.Invalid) || fault.Is(refused, fault.Conflict) {
		return refused
	}

	if err = classify(err, "score rollout %q", id); !fault.Is(err, fault.NotFound) {
		return err
	}

	earlier := c.temporal.GetWorkflowUpdateHandle(client.GetWorkflowUpdateHandleOptions{
		WorkflowID: rollout.WorkflowID(id),
		UpdateID:   update,
	})
	if earlier.Get(ctx, nil) == nil {
		// the request was made before, and its answer was lost
		return nil
	}
	// the workflow may have closed meanwhile
	if state, err = c.State(ctx, id); err != nil {
		return err
	}

	return fault.New(fault.Conflict, "the rollout does not wait for a score: it is in phase %s", state.Phase)
}

// digestOf names a score with further rewards.
func digestOf(s rollout.Score) string {
	// finite numbers always encode
	text, _ := json.Marshal(s)
	sum := sha256.Sum256(text)

	return hex.EncodeToString(sum[:8])
}
