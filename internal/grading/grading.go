// Package grading grades what an agent left behind: it stages the verifier's files in a sandbox that holds the agent's work,
// runs the verifier there and reads the reward.
package grading

import (
	"context"
	"log/slog"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Sandboxes finds and makes sandboxes. The lease of a returned sandbox is renewed until release is called.
type Sandboxes interface {
	// Attach finds a living sandbox; one that is gone is a fault.SandboxLost.
	Attach(ctx context.Context, id string) (sb *sandbox.Sandbox, release func(), err error)
	// CreateVerifier makes the sandbox in which an attempt is graded, or finds the one it made before.
	CreateVerifier(ctx context.Context, t rollout.Target, s rollout.Sandbox) (sb *sandbox.Sandbox, release func(), err error)
}

// Grader grades attempts. It holds no state: one value serves any number of attempts at a time, but one attempt must not be
// graded twice at the same time.
type Grader struct {
	Store     *store.Store
	Sandboxes Sandboxes
	Logger    *slog.Logger
}

// Job is what is to be graded, and how.
type Job struct {
	rollout.Target
	Sandbox  rollout.Sandbox
	Verifier rollout.Verifier
	Timeout  time.Duration // of script and commands together
}

// Record is what the store keeps of a grading under store.Verdict, with a reward or without.
type Record struct {
	Reward   *float64                `json:"reward"`
	Error    string                  `json:"error,omitempty"` // why there is no reward
	Script   *rollout.CommandResult  `json:"script,omitempty"`
	Commands []rollout.CommandResult `json:"commands"`
	Stdout   string                  `json:"stdout"` // of the script, cut as a Result carries it
	Stderr   string                  `json:"stderr"`
}

// Grade returns the attempt's record: the one in the store, or a new one, which it stores. The agent's processes are dead
// before the verifier starts. An error means that grading could not be done, not that the work is bad.
func (g *Grader) Grade(ctx context.Context, job Job) (Record, error) {
	record, err := ReadRecord(ctx, g.Store, job.Target)
	if err == nil || !fault.Is(err, fault.NotFound) {
		return record, err
	}
	if record, err = g.grade(ctx, job); err != nil {
		return record, err
	}
	return record, g.Store.PutJSON(ctx, recordKey(job.Target), record)
}

// ReadRecord returns the stored record of the attempt; without one, a fault.NotFound.
func ReadRecord(ctx context.Context, s *store.Store, t rollout.Target) (Record, error) {
	var record Record
	err := s.JSON(ctx, recordKey(t), &record)
	return record, err
}

func recordKey(t rollout.Target) string {
	return store.AttemptKey(t.RolloutID, t.Attempt, store.Verdict)
}

// grade prepares the sandbox, runs the verifier in it and reads the reward.
func (g *Grader) grade(ctx context.Context, job Job) (Record, error) {
	sb, release, err := g.verifierSandbox(ctx, job)
	if err != nil {
		return Record{}, err
	}
	defer release()
	record, timedOut, err := g.runVerifier(ctx, sb, job)
	if err != nil {
		return record, retryable(job, err)
	}
	if err := sb.KillAll(ctx); err != nil { // nothing may write the reward file while it is read
		return record, retryable(job, err)
	}
	raw, err := sb.ReadFile(ctx, rollout.RewardFile, maxRewardFile)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
		return record, retryable(job, err)
	}
	record.decide(evidence{file: raw, fileErr: err, timedOut: timedOut, budget: job.Timeout})
	return record, nil
}
