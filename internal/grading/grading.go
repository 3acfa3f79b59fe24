// Package grading grades an agent's work: it stages the verifier's files in a sandbox with the work, runs
// the verifier there and reads the reward.
package grading

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Sandboxes finds and makes sandboxes. The lease of a returned sandbox is renewed until release is called.
type Sandboxes interface {
	// Attach finds a sandbox. A lost one is a fault.SandboxLost, or a fault.OutOfMemory; see sandbox.Backend.OfMemory.
	Attach(ctx context.Context, id string) (sb *sandbox.Sandbox, release func(), err error)
	// CreateVerifier creates the sandbox in which an attempt is graded, or finds the existing one.
	CreateVerifier(
		ctx context.Context,
		t rollout.Target,
		s rollout.Sandbox,
	) (sb *sandbox.Sandbox, release func(), err error)
	// CreateControl is the same for the sandbox in which the verifier runs without the agent's work.
	CreateControl(
		ctx context.Context,
		t rollout.Target,
		s rollout.Sandbox,
	) (sb *sandbox.Sandbox, release func(), err error)
	// Destroy destroys a sandbox; it does nothing for one that is gone.
	Destroy(ctx context.Context, id string) error
}

// Grader grades attempts. It holds no state beside Controls: one value serves any number of attempts at a time, but one
// attempt must not be graded twice at the same time.
type Grader struct {
	Store     *store.Store
	Sandboxes Sandboxes
	Logger    *slog.Logger
	// EndAgent ends the agent itself in its sandbox, and leaves the processes that it has started and detached. Only
	// live grading calls it.
	EndAgent func(ctx context.Context, sb *sandbox.Sandbox) error
	// Network opens the network of the agent's sandbox to hosts until closed is called. Only shared grading of tasks with a
	// network calls it.
	Network func(
		ctx context.Context,
		sb *sandbox.Sandbox,
		hosts []string,
	) (_ *sandbox.Sandbox, closed func(), err error)
	// CheckServices returns a fault.SandboxLost if the sandbox of a service beside a sandbox is lost. Only gradings
	// with services call it.
	CheckServices func(ctx context.Context, id string) error
	// Command is called when a command of the verifier begins, and with its result when it has ended:
	// number 0 is the test script. nil: it is not called.
	Command func(number int, command string, res *rollout.CommandResult)
	// Controls keeps how verifiers end without work; nil: each doubtful grade finds out anew.
	Controls *Controls
}

// Job describes one grading.
type Job struct {
	rollout.Target
	Sandbox  rollout.Sandbox
	Verifier rollout.Verifier

	// bounds script and commands together
	Timeout time.Duration

	// Untouched: the agent began in what a fresh sandbox of the verifier has, without files and setup of the task.
	Untouched bool
}

// Record is the result of a grading, stored under store.Grading.
type Record struct {
	Reward *float64 `json:"reward"`

	// all that the verifier named, also without a Reward
	Rewards map[string]float64 `json:"rewards,omitempty"`

	// rewards of turns, sorted
	TurnRewards []rollout.TurnReward `json:"turn_rewards,omitempty"`

	// why there is no reward
	Error string `json:"error,omitempty"`

	// without a status if an earlier version wrote it
	Grading  rollout.Grading         `json:"grading"`
	Script   *rollout.CommandResult  `json:"script,omitempty"`
	Commands []rollout.CommandResult `json:"commands"`

	// output of the script, shortened for a Result
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// Causes are the resource limits that the verifier's sandbox reached.
	Causes []rollout.ResourceCause `json:"resource_causes,omitempty"`

	// bounds that the sandbox reached before it was the verifier's
	earlier []rollout.ResourceCause

	// the kernel killed processes of the sandbox because the host's memory was full
	byHost bool

	// the script gave the least reward, and something says that a program is missing
	lacksRunner bool

	// Grading.Unseen, Mode and Notes, before there is a Grading
	unseen []string
	mode   string
	notes  []string

	// lines of the script's output that are about something missing
	lacks []string
}

// Grade returns the stored record of the attempt, or grades it and stores the record. The agent's processes
// are dead before the verifier starts. If the agent's work prevents a reward, the record has the reason and
// reward 0. An error means that grading failed for a reason outside the agent's work.
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
	return store.GradeKey(t, store.Grading)
}

const (
	// gradings is how often an attempt is graded at most, because the host's memory was full. The last
	// result counts, so that no work can avoid a 0 by filling the host.
	gradings = 3

	// pause before the next
	hostPause = 3 * time.Second
)

// grade grades the attempt, again if the host may have determined the result.
func (g *Grader) grade(ctx context.Context, job Job) (Record, error) {
	for n := 1; ; n++ {
		record, err := g.gradeOnce(ctx, job)
		if lost := g.servicesLost(ctx, job, err); lost != nil {
			return record, lost
		}

		if n == gradings || !record.byHost || !doubtful(job, record, err) ||
			timeLeft(ctx, job) < job.Timeout {
			err = record.recordFailure(g.checkVerifier(ctx, job, record, err))
			record.noteLacks(job.Verifier)

			return record, err
		}

		g.Logger.WarnContext(ctx, "grading again: the host's memory was full", "step", "RunVerifier",
			"rollout", job.RolloutID, "attempt", job.Attempt)

		if err := g.Sandboxes.Destroy(ctx, job.VerifierID()); err != nil {
			return record, err
		}

		if err := clock.Sleep(ctx, hostPause); err != nil {
			return record, err
		}
	}
}

// servicesLost returns an error if a service that the tests may have used is lost: their result is then no grade. err is
// that of the grading.
func (g *Grader) servicesLost(ctx context.Context, job Job, err error) error {
	var f *failure
	if job.Services == "" || job.Verifier.Image != "" || err != nil && !errors.As(err, &f) {
		return nil
	}

	beside := job.VerifierID()
	if job.Verifier.Live() || job.Verifier.Shared() {
		beside = job.SandboxID()
	}

	return g.CheckServices(ctx, beside)
}

// gradeOnce prepares the sandbox, runs the verifier in it and reads the reward.
func (g *Grader) gradeOnce(ctx context.Context, job Job) (Record, error) {
	record := Record{Commands: []rollout.CommandResult{}}
	if job.Verifier.Live() || job.Verifier.Shared() {
		record.mode = job.Verifier.Grade
	}

	if job.Verifier.Shared() {
		return record, g.gradeShared(ctx, job, &record)
	}

	sb, release, err := g.verifierSandbox(ctx, job, &record)
	if err != nil {
		return record, err
	}
	defer release()

	if record.unseen, err = g.unseen(ctx, sb, job); err == nil {
		record.notes, err = g.notes(ctx, job)
	}

	if err != nil {
		return record, g.handleLostSandbox(ctx, sb, &record, err)
	}

	if job.Verifier.Live() {
		return record, g.runLive(ctx, sb, job, &record)
	}

	return record, g.handleLostSandbox(ctx, sb, &record, g.run(ctx, sb, job, &record))
}

// recordFailure puts failures of the submission and of the verifier into the record, and returns every other error.
func (r *Record) recordFailure(err error) error {
	var f *failure
	switch {
	case err == nil:
		r.Grading.Status = rollout.Graded
	case !errors.As(err, &f):
		return err
	case f.verifier:
		r.Reward, r.Error, r.Grading = nil, f.why, rollout.Grading{Status: rollout.NoUsableReward, Why: f.why}
	default:
		r.Reward, r.Grading = new(float64), rollout.Grading{Status: rollout.FailedBySubmission, Why: f.why}
	}

	r.Grading.Unseen, r.Grading.Mode, r.Grading.Notes = r.unseen, r.mode, r.notes

	return nil
}

// GradingOf is the status of the grading in a rollout that ended with outcome o.
func (r Record) GradingOf(o rollout.Outcome) rollout.Grading {
	switch {
	case !o.MayCarryReward() && o != rollout.VerifierFailed:
		return rollout.Grading{Status: rollout.NotGraded}
	case r.Grading.Status != "":
		return r.Grading
	case r.Reward != nil:
		return rollout.Grading{Status: rollout.Graded}
	default:
		return rollout.Grading{Status: rollout.NoUsableReward, Why: r.Error}
	}
}
