package activities

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/supervisor"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// MaxTime is the longest that RunAgent takes with all its retries, without the time in which no worker runs it.
func (in *AgentInput) MaxTime() time.Duration { return supervisor.MaxTime(in.Limits) }

// RunAgent launches the agent on its task, or attaches to the running one, and returns when it is done or a
// bound has ended it. The agent's time counts from its first model call, however often the activity runs.
//
// A host has one goroutine here for each running rollout, so large values are on the heap and its stack is
// small: the SDK and reflection take nearly half of 16 KiB.
func (a *Activities) RunAgent(ctx context.Context, in *AgentInput) (*AgentResult, error) {
	ctx, over, err := a.acquireAttempt(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	defer over()

	a.phase(in.Target, rollout.PhaseAgent)

	w, err := a.openAgent(ctx, in)
	if err != nil {
		return a.endOutOfMemory(ctx, in.Target, err)
	}
	defer w.close()

	watched, unwatch, err := a.watchServices(ctx, in.Target)
	if err != nil {
		return nil, err
	}
	defer unwatch()

	res, err := a.watcher.Run(watched, &w.job)
	if err != nil {
		return a.endOutOfMemory(ctx, in.Target, lostService(ctx, watched, err))
	}

	if err := a.recordServices(ctx, in.Target); err != nil {
		return nil, err
	}

	return a.agentResult(ctx, in, res)
}

// endOutOfMemory turns the loss of a sandbox that ran out of memory into outcome agent_failed, if the agent
// had called its model. Otherwise a policy could discard an attempt by exhausting memory. It returns any
// other error unchanged.
func (a *Activities) endOutOfMemory(ctx context.Context, t Target, err error) (*AgentResult, error) {
	b, backendErr := a.backend(t)
	if backendErr != nil {
		return nil, err
	}

	why := b.OfMemory(ctx, t.SandboxID(), err)
	if !fault.Is(err, fault.SandboxLost) || !fault.Is(why, fault.OutOfMemory) {
		return nil, err
	}

	route, statusErr := a.o.Gateway.Status(ctx, t.SandboxID())
	// the next try of the activity asks again
	if fault.Is(statusErr, fault.Unavailable) {
		return nil, statusErr
	}

	if statusErr != nil || route.Turns == 0 {
		return nil, err
	}

	return &AgentResult{Outcome: rollout.AgentFailed, ExitCode: -1, Error: why.Error(), Turns: route.Turns}, nil
}

// agentWork is the state of one RunAgent.
type agentWork struct {
	in  *AgentInput
	sb  *sandbox.Sandbox
	job supervisor.Job

	// in the order in which they were opened
	closers []func()
}

// close calls the closers in reverse order.
func (w *agentWork) close() {
	for _, f := range slices.Backward(w.closers) {
		f()
	}
}

// openAgent opens the resources of the agent. The caller must call close.
func (a *Activities) openAgent(ctx context.Context, in *AgentInput) (*agentWork, error) {
	w := &agentWork{in: in}
	if err := a.prepareAgent(ctx, w); err != nil {
		w.close()
		return nil, err
	}

	return w, nil
}

// prepareAgent attaches to the sandbox and makes the job of the watch. After an error the opened resources
// are in w as well.
func (a *Activities) prepareAgent(ctx context.Context, w *agentWork) error {
	in := w.in

	kind, err := a.o.Agents.Get(in.Agent)
	if err != nil {
		return err
	}

	sandboxes, err := a.backend(in.Target)
	if err != nil {
		return err
	}

	if err := a.attachAgent(ctx, w); err != nil {
		return err
	}

	if kind.NoChannel() {
		if err := a.openBeforeLaunch(ctx, w.sb, in); err != nil {
			return err
		}
	}

	w.job = supervisor.Job{
		RolloutID: in.RolloutID,
		Attempt:   in.Attempt,
		SandboxID: in.SandboxID(),
		Kind:      kind,
		Env:       a.env(w.sb, in.Target),
		Sandboxes: sandboxes,
		Work: agent.Job{
			Instruction: in.Instruction,
			ObeyProject: in.ObeyProject,
			Step:        in.Step,
			Solution:    in.Solution,
			React:       in.React,
			Episode:     in.Episode,
			Model:       in.Model,
			MaxOutput:   max(in.Model.MaxTokensCap, 0),
			MCPServers:  in.MCPServers,
			Skills:      in.SkillsFolder,
		},
		Limits: in.Limits,
		Logger: a.loggerOf("RunAgent", in.Target),
	}
	if kind.OnHost {
		return a.bindTools(ctx, w)
	}

	return nil
}

// attachAgent attaches to the sandbox and opens its network for the agent.
func (a *Activities) attachAgent(ctx context.Context, w *agentWork) error {
	sb, release, err := a.attach(ctx, w.in.Target)
	if err != nil {
		return err
	}

	w.closers = append(w.closers, release)

	sb, offline, err := a.withNetwork(ctx, w.in.Target, sb, network.Agent, w.in.Network.ForAgent())
	if err != nil {
		return err
	}

	w.sb, w.closers = sb, append(w.closers, offline)

	return nil
}

// bindTools sets the tools of an agent on the host: those of an episode, or the policy's.
func (a *Activities) bindTools(ctx context.Context, w *agentWork) error {
	if w.in.Agent == rollout.AgentInteractive {
		open, closeEpisode, err := a.openEpisode(ctx, w.sb, w.in, false)
		if err != nil {
			return err
		}

		w.job.Env.Episode, w.closers = open, append(w.closers, closeEpisode)

		return nil
	}

	config := w.in.React.Filled()

	selected, err := a.o.Tools.Select(config.EnabledToolsets, config.DisabledToolsets)
	if err != nil {
		return err
	}

	w.job.Env.Tools, err = selected.Bind(ctx, a.toolEnv(w.in, w.sb))

	return err
}

// agentResult converts the watch's result for the workflow. If the kernel killed the agent because the
// host's memory was full, the attempt is lost, unless it is the last one: then the result counts, so that
// no policy can avoid a grade by filling the host.
func (a *Activities) agentResult(ctx context.Context, in *AgentInput, res *supervisor.Result) (*AgentResult, error) {
	causes, byHost, err := a.recordCauses(ctx, in.Target, rollout.PhaseAgent)
	if err == nil && byHost && in.Attempt < in.Limits.Attempts && killedForMemory(res, causes) {
		return nil, failure.Final(
			fault.New(fault.Unavailable, "the host's memory was full, and the kernel killed the agent: %s", res.Error),
		)
	}

	if res.Error != "" && len(causes) > 0 {
		res.Error += "; " + rollout.CausesInWords(causes)
	}

	return &AgentResult{
		Outcome:   res.Outcome,
		ExitCode:  res.ExitCode,
		Error:     res.Error,
		Turns:     res.Turns,
		SessionID: res.SessionID,
		Malformed: res.Malformed,
		Held:      res.Held,
	}, err
}

// killedForMemory reports whether SIGKILL ended the agent in a phase in which the kernel killed processes
// of its sandbox for lack of memory. A process of the sandbox may have sent the signal; without the
// kernel's counter every such end is the policy's.
func killedForMemory(res *supervisor.Result, causes []rollout.ResourceCause) bool {
	const killed = 128 + int(unix.SIGKILL)

	return res.Outcome == rollout.AgentFailed && res.ExitCode == killed &&
		slices.ContainsFunc(causes, func(c rollout.ResourceCause) bool { return c.Cause == rollout.OutOfMemory })
}

// openBeforeLaunch opens the route of an agent without StartProxy before its first launch. A launched agent
// has a route; if the gateway has lost it, a new one would lack the turns so far.
func (a *Activities) openBeforeLaunch(ctx context.Context, sb *sandbox.Sandbox, in *AgentInput) error {
	_, err := agent.AttachProcess(ctx, sb)
	if fault.Is(err, fault.NotFound) {
		return a.open(ctx, ProxyInput{
			Target: in.Target,
			Agent:  in.Agent,
			Mode:   in.Mode,
			Model:  in.Model,
			Limits: in.Limits,
		})
	}

	return err
}

// toolEnv is the environment of the rollout's tools.
func (a *Activities) toolEnv(in *AgentInput, sb *sandbox.Sandbox) tool.Env {
	return tool.Env{
		Sandbox:   sb,
		Networked: len(in.Network.ForAgent()) > 0,
		Record:    a.o.Store.ToolRecord(in.RolloutID, in.Attempt),
	}
}

// openEpisode lets the tool service accept calls in the sandbox until closeIt is called.
func (a *Activities) openEpisode(
	ctx context.Context,
	sb *sandbox.Sandbox,
	in *AgentInput,
	scoring bool,
) (_ *toolservice.Episode, closeIt func(), err error) {
	config := in.Episode.Filled()

	selected, err := a.o.Tools.Select(config.EnabledToolsets, config.DisabledToolsets)
	if err != nil {
		return nil, nil, err
	}

	tools := selected.BindLater(ctx, a.toolEnv(in, sb))
	o := toolservice.Options{ID: sb.ID(), Scoring: scoring, Tools: tools, Files: sb, MaxSteps: config.MaxSteps}
	// a grader's calls are not the policy's steps
	if !scoring {
		// until the launch is marked: a call could keep the sandbox from starting the mark's process
		o.WaitForAccept = true
		o.Reporter = agent.NewReporter(a.o.Events.Of(in.Target))
	}

	open, end, err := a.o.Episodes.Open(o)
	if err != nil {
		return nil, nil, err
	}

	return open, func() {
		if err := end(); err != nil {
			a.log.WarnContext(ctx, "step log not closed", "sandbox", sb.ID(), "error", err)
		}
	}, nil
}
