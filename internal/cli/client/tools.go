package client

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Started is the result of start_rollout.
type Started struct {
	ID     string `json:"rollout_id"`
	TaskID string `json:"task_id"`
	Status string `json:"status"`
}

// State is the result of get_state.
type State struct {
	ID     string `json:"rollout_id"`
	TaskID string `json:"task_id"`

	// "running", "done", "unknown"
	Status    string          `json:"status"`
	Phase     rollout.Phase   `json:"phase"`
	Attempt   int             `json:"attempt"`
	Turns     int             `json:"proxy_turns_so_far"`
	Outcome   rollout.Outcome `json:"outcome"`
	Reward    *float64        `json:"reward"`
	Error     string          `json:"error"`
	SandboxID string          `json:"sandbox_id"`

	// why the model endpoint keeps the rollout or its agent waiting
	Waiting string `json:"waiting"`

	// unix seconds; nil: the state is the present one
	AsOf      *float64 `json:"as_of"`
	SessionID string   `json:"serve_session_id"`

	// unix seconds
	StartedAt  float64               `json:"started_at"`
	FinishedAt *float64              `json:"finished_at"`
	Phases     []rollout.PhaseTiming `json:"phases"`
}

// Done reports whether the rollout has ended.
func (s State) Done() bool { return s.Status == "done" }

// Unknown reports whether the server has no such rollout.
func (s State) Unknown() bool { return s.Status == "unknown" }

// Aborted is the result of abort_rollout.
type Aborted struct {
	Aborted bool   `json:"aborted"`
	Reason  string `json:"reason"`
}

// Unknown reports whether the server has no such rollout.
func (a Aborted) Unknown() bool { return !a.Aborted && a.Reason == "unknown" }

// Start submits a rollout and returns at once.
func (c *Client) Start(ctx context.Context, args map[string]any) (Started, error) {
	var s Started

	err := c.Call(ctx, "start_rollout", args, &s)

	return s, err
}

// State returns the state of a rollout.
func (c *Client) State(ctx context.Context, id string) (State, error) {
	var s State

	err := c.Call(ctx, "get_state", map[string]any{"rollout_id": id}, &s)

	return s, err
}

// Result returns the result of a rollout that is done, decoded and as the server's JSON.
func (c *Client) Result(ctx context.Context, id string) (rollout.Result, []byte, error) {
	var raw rawResult

	err := c.Call(ctx, "finalize_rollout", map[string]any{"rollout_id": id, "wait_s": resultWait.Seconds()}, &raw)

	return raw.Result, raw.text, err
}

// resultWait covers the time between a rollout's last state and its result.
const resultWait = 30 * time.Second

// Abort requests the end of a rollout.
func (c *Client) Abort(ctx context.Context, id string) (Aborted, error) {
	var a Aborted

	err := c.Call(ctx, "abort_rollout", map[string]any{"rollout_id": id}, &a)

	return a, err
}
