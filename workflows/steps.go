package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// hostReturn is the schedule-to-start timeout of a host's activities, after which the host counts as
	// lost. It is longer than a worker's restart and shorter than the lease of a sandbox. goneReturn is the
	// same for a host that counts as lost.
	hostReturn = 2 * time.Minute
	goneReturn = 10 * time.Second
	// heartbeat is the heartbeat timeout, after which an activity is retried.
	heartbeat = 20 * time.Second
	// createHeartbeat is the heartbeat timeout of CreateSandbox. It is shorter, because takeover does not
	// cover a CreateSandbox whose sandbox does not exist yet.
	createHeartbeat = 10 * time.Second

	createTries = 10 * time.Minute

	// the first one of a host downloads the agent
	installTimeout = 10 * time.Minute
	proxyTimeout   = time.Minute
	// slack is the time for launching, staging and saving, in addition to the task's limit.
	slack = 2 * time.Minute
	// gradingSlack is the same for grading, which saves the workspace, restores it in another sandbox, and
	// may run the verifier again without it. A slow disk or store must not fail a grading.
	gradingSlack = 10 * time.Minute
	closeTimeout = 2 * time.Minute
)

// step has the options of an activity on a host.
type step struct {
	// bounds all its tries, without the wait for the host
	timeout time.Duration

	// summary for people, in the Temporal UI
	summary string
}

// onHost is the context of an activity on the host of the current attempt.
func (r *run) onHost(ctx workflow.Context, s step) workflow.Context {
	wait := hostReturn
	if r.current.hostLost {
		wait = goneReturn
	}

	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              r.current.place.Queue,
		ScheduleToStartTimeout: wait,
		ScheduleToCloseTimeout: wait + s.timeout,
		HeartbeatTimeout:       heartbeat,
		RetryPolicy:            retryPolicy(),
		Summary:                s.summary,
	})
}

// do runs an activity on the host as a phase.
func (r *run) do(a *attempt, phase rollout.Phase, s step, activity, in, out any) error {
	ctx := r.beginPhase(phase)
	return a.failed(phase, workflow.ExecuteActivity(r.onHost(ctx, s), activity, in).Get(ctx, out))
}

// create waits for a host with capacity and for a model endpoint that can take another rollout, and creates
// the sandbox.
func (r *run) create(a *attempt) error {
	l := r.spec.Limits
	ctx := workflow.WithActivityOptions(r.beginPhase(rollout.PhaseQueued), workflow.ActivityOptions{
		TaskQueue:              rollout.CreateQueue(r.spec.Sandbox.Backend),
		ScheduleToStartTimeout: l.Queue,
		ScheduleToCloseTimeout: l.Queue + createTries,
		HeartbeatTimeout:       createHeartbeat,
		RetryPolicy:            uncounted(), // the activity returns often while the model endpoint is paused
		// the sandbox may be created despite the cancellation, and must then be closed
		WaitForCancellation: true,
		Summary:             fmt.Sprintf("attempt %d", a.target.Attempt),
	})
	in := activities.CreateSandboxInput{
		Target: a.target, Sandbox: r.spec.Sandbox, Upstream: r.spec.Model.Upstream(), Tries: tries,
		Agent: r.spec.Agent, ObeyProject: r.spec.Task.ObeyProject, MaxOutput: max(r.spec.Model.MaxTokensCap, 0),
		Owner: r.spec.Owner, Queue: l.Queue, From: a.from,
	}

	err := workflow.ExecuteActivity(ctx, r.acts.CreateSandbox, in).Get(ctx, &a.place)
	if isScheduleToStartTimeout(err) {
		a.phase = rollout.PhaseQueued
		return fault.New(fault.Exhausted, "no host had capacity within %s", l.Queue)
	}
	// a host took the step, but had no room
	if err := a.failed(rollout.PhaseCreating, err); fault.Is(err, fault.Exhausted) {
		a.phase = rollout.PhaseQueued
		return fault.Wrap(fault.Exhausted, err, "no host had capacity within %s", l.Queue)
	} else if err != nil {
		return err
	}

	r.placed(a.place)
	r.arm()

	return nil
}

func (r *run) installAgent(a *attempt) error {
	if a.place.NoInstall {
		return nil
	}

	in := activities.InstallInput{Target: a.target, Agent: r.spec.Agent}

	var out activities.InstallResult

	err := r.do(a, rollout.PhaseInstalling, step{
		timeout: installTimeout,
		summary: r.spec.Agent,
	}, r.acts.InstallOpencode, in, &out)
	a.install = out.Log

	return err
}

func (r *run) openProxy(a *attempt) error {
	if a.place.NoProxy {
		return nil
	}
	// even after an error a route may exist
	a.proxied = true
	in := activities.ProxyInput{
		Target: a.target,
		Agent:  r.spec.Agent,
		Mode:   r.spec.Mode,
		Model:  r.spec.Model,
		Limits: r.limits(a),
	}

	return r.do(a, rollout.PhaseProxy, step{
		timeout: proxyTimeout,
		summary: r.spec.Model.Name,
	}, r.acts.StartProxy, in, nil)
}

// prepare restores the work of the step before and runs the setup, if there are any.
func (r *run) prepare(a *attempt) error {
	t := r.task(a)
	if len(t.Files) == 0 && t.FilesRef == nil && len(t.Setup) == 0 && a.from == 0 {
		return nil
	}

	files, _ := t.Split()
	in := activities.SetupInput{
		Target:   a.target,
		Files:    files,
		FilesRef: t.FilesRef,
		Commands: t.Setup,
		Timeout:  r.spec.Limits.Setup,
		Network:  r.spec.Sandbox.Network,
		From:     a.from,
	}

	summary := fmt.Sprintf("%d commands", len(t.Setup))
	if t.FilesRef != nil {
		summary += fmt.Sprintf(", %d KiB of files", t.FilesRef.Size>>10)
	}

	return r.do(a, rollout.PhaseSetup, step{timeout: in.Timeout + slack, summary: summary}, r.acts.RunSetup, in, nil)
}

func (r *run) runAgent(a *attempt) error {
	a.proxied = true
	in, out := r.agentInput(a), &activities.AgentResult{}

	s := step{timeout: in.MaxTime() + slack, summary: "at most " + in.Limits.Agent.String()}
	if err := r.do(a, rollout.PhaseAgent, s, r.acts.RunAgent, in, out); err != nil {
		return err
	}

	a.agent = out
	r.progress(rollout.Progress{Attempt: a.target.Attempt, Turns: out.Turns, SessionID: out.SessionID})

	return nil
}

// agentInput is the input of RunAgent. A separate function keeps its 2 KiB off the stack that waits for
// RunAgent in each running rollout.
func (r *run) agentInput(a *attempt) *activities.AgentInput {
	s, t := &r.spec, r.task(a)
	in := &activities.AgentInput{
		Target:      a.target,
		Agent:       s.Agent,
		Instruction: t.Instruction,
		ObeyProject: t.ObeyProject,
		Step:        a.step,
		React:       s.React,
		Episode:     s.Episode,
		Mode:        s.Mode,
		Model:       s.Model,
		Limits:      r.limits(a),
		Network:     s.Sandbox.Network,

		MCPServers:   s.Sandbox.MCPServers,
		SkillsFolder: s.Sandbox.SkillsFolder(),
	}
	// no other agent may see the solution
	if s.Agent == rollout.AgentOracle {
		in.Solution = t.Solution
	}

	return in
}

// verify grades the workspace, if there is a verifier and the agent's outcome may carry a reward.
func (r *run) verify(a *attempt) error {
	t := r.task(a)

	files, v := t.Split()
	if !v.Defined() || !a.agent.Outcome.MayCarryReward() {
		return nil
	}

	if v.External {
		return r.awaitScore(a)
	}

	uploads, _ := t.SplitUploads()
	in := activities.VerifyInput{
		Target:    a.target,
		Sandbox:   r.spec.Sandbox,
		Verifier:  v,
		Timeout:   r.limits(a).Verifier,
		Untouched: len(files)+len(uploads)+len(t.Setup) == 0 && t.FilesRef == nil && a.from == 0 && v.Image == "",
	}

	var out activities.Grade

	err := r.do(a, rollout.PhaseVerifying, step{
		timeout: v.CollectTime() + in.Timeout + gradingSlack,
		summary: "at most " + in.Timeout.String(),
	}, r.acts.RunVerifier, in, &out)
	if err != nil {
		return err
	}

	a.grade = &out

	return nil
}
