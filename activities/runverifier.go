package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// verdictRecord is what the store keeps of a grading (store.Verdict), whether it came to a grade or not.
type verdictRecord struct {
	Reward   *float64                `json:"reward"`
	Error    string                  `json:"error,omitempty"` // why there is no reward
	Script   *rollout.CommandResult  `json:"script,omitempty"`
	Commands []rollout.CommandResult `json:"commands"`
	Stdout   string                  `json:"stdout"` // of the script, cut as a Result carries it
	Stderr   string                  `json:"stderr"`
}

// RunVerifier grades what the agent left: with every process of the agent dead, in a fresh sandbox into which its home was
// restored (unless the task wants the same one), with test files that the agent never saw. A verdict once given stands. A
// verifier that gives none is a fault.VerifierFailed.
func (a *Activities) RunVerifier(ctx context.Context, in VerifyInput) (Grade, error) {
	ctx, over, err := a.alone(ctx, in.Target)
	if err != nil {
		return Grade{}, err
	}
	defer over()
	record, err := a.verdict(ctx, in)
	if err != nil {
		return Grade{}, err
	}
	if record.Reward == nil {
		return Grade{}, fault.New(fault.VerifierFailed, "%s", record.Error)
	}
	return Grade{Reward: *record.Reward}, nil
}

// verdict is the one in the store, or the one that grading comes to.
func (a *Activities) verdict(ctx context.Context, in VerifyInput) (verdictRecord, error) {
	key := store.AttemptKey(in.RolloutID, in.Attempt, store.Verdict)
	record, err := a.readVerdict(ctx, key)
	if err == nil || !fault.Is(err, fault.NotFound) {
		return record, err
	}
	if record, err = a.grade(ctx, in); err != nil {
		return record, err
	}
	return record, a.putJSON(ctx, key, record)
}

func (a *Activities) readVerdict(ctx context.Context, key string) (verdictRecord, error) {
	var record verdictRecord
	err := a.readJSON(ctx, key, &record)
	return record, err
}

// grade prepares the place, runs the verifier in it and reads its verdict.
func (a *Activities) grade(ctx context.Context, in VerifyInput) (verdictRecord, error) {
	sb, release, err := a.courtroom(ctx, in)
	if err != nil {
		return verdictRecord{}, err
	}
	defer release()
	record, timedOut, err := a.hear(ctx, sb, in)
	if err != nil {
		return record, inFreshSandbox(in, err)
	}
	if err := sb.KillAll(ctx); err != nil { // nothing may write the reward file while it is read
		return record, inFreshSandbox(in, err)
	}
	raw, err := sb.ReadFile(ctx, rollout.RewardFile, maxRewardFile)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
		return record, inFreshSandbox(in, err)
	}
	record.decide(evidence{file: raw, fileErr: err, timedOut: timedOut, budget: in.Timeout})
	return record, nil
}

// courtroom is the sandbox in which the attempt is graded, prepared: what the agent left is there, its processes and whatever
// it put where tests and reward belong are not. When the verifier has begun already it is left as it is.
func (a *Activities) courtroom(ctx context.Context, in VerifyInput) (*sandbox.Sandbox, func(), error) {
	sb, release, err := a.workspace(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	begun, err := started(ctx, sb, firstProcess(in.Verifier))
	if err == nil && !begun {
		err = a.prepare(ctx, sb, in)
	}
	if err != nil {
		release()
		return nil, nil, inFreshSandbox(in, err)
	}
	return sb, release, nil
}

// workspace is the agent's own sandbox, or a fresh one.
func (a *Activities) workspace(ctx context.Context, in VerifyInput) (*sandbox.Sandbox, func(), error) {
	if in.Verifier.SameSandbox {
		return a.attach(ctx, in.SandboxID())
	}
	if err := a.snapshot(ctx, in.Target); err != nil {
		return nil, nil, err
	}
	sb, err := a.create(ctx, in.VerifierID(), in.Sandbox, in.labels(purposeVerifier))
	if err != nil {
		return nil, nil, inFreshSandbox(in, err)
	}
	agents := a.keepEvidence(ctx, in.Target)
	release := a.keep(ctx, sb)
	return sb, func() { release(); agents() }, nil
}

// keepEvidence keeps the agent's sandbox alive while another one is graded: its logs are collected afterwards. Grading does not
// need it, so it may be gone.
func (a *Activities) keepEvidence(ctx context.Context, t Target) (release func()) {
	_, release, err := a.attach(ctx, t.SandboxID())
	if err != nil {
		a.loggerOf("RunVerifier", t).WarnContext(ctx, "the agent's sandbox is not kept", "kind", fault.KindOf(err), "error", err)
		return func() {}
	}
	return release
}

// inFreshSandbox makes the loss of the verifier's own sandbox a passing error: the workspace lies in the store, so grading can
// begin again in another one.
func inFreshSandbox(in VerifyInput, err error) error {
	if in.Verifier.SameSandbox || !fault.Is(err, fault.SandboxLost) {
		return err
	}
	return fault.Wrap(fault.Unavailable, err, "verifier's sandbox")
}
