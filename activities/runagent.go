package activities

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/watch"
	"github.com/rolloutd/rolloutd/internal/episode/live"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// MaxTime is the longest that RunAgent takes, all its tries together, apart from the time in which no worker runs it.
func (in AgentInput) MaxTime() time.Duration { return watch.MaxTime(in.Limits) }

// RunAgent launches the agent on its task, or attaches to the one that runs, until it is done or one of its bounds ends it. The
// agent's time counts from its first model call, however often the activity runs.
func (a *Activities) RunAgent(ctx context.Context, in AgentInput) (AgentResult, error) {
	ctx, over, err := a.alone(ctx, in.Target)
	if err != nil {
		return AgentResult{}, err
	}
	defer over()
	a.phase(in.Target, rollout.PhaseAgent)
	kind, err := a.o.Agents.Get(in.Agent)
	if err != nil {
		return AgentResult{}, err
	}
	sandboxes, err := a.backend(in.Target)
	if err != nil {
		return AgentResult{}, err
	}
	sb, release, err := a.attach(ctx, in.Target)
	if err != nil {
		return AgentResult{}, err
	}
	defer release()
	sb, offline, err := a.withNetwork(ctx, in.Target, sb, network.Agent, in.Network.ForAgent())
	if err != nil {
		return AgentResult{}, err
	}
	defer offline()
	if kind.OnHost {
		if err := a.openBeforeLaunch(ctx, sb, in); err != nil {
			return AgentResult{}, err
		}
	}
	env := a.env(sb, in.Target)
	if in.Agent == rollout.AgentInteractive {
		var closeEpisode func()
		if env.Episode, closeEpisode, err = a.openEpisode(ctx, sb, in, false); err != nil {
			return AgentResult{}, err
		}
		defer closeEpisode()
	} else if kind.OnHost {
		config := in.React.Filled()
		selected, err := a.o.Tools.Select(config.EnabledToolsets, config.DisabledToolsets)
		if err != nil {
			return AgentResult{}, err
		}
		if env.Tools, err = selected.Bind(ctx, a.toolEnv(in.Target, sb)); err != nil {
			return AgentResult{}, err
		}
	}
	res, err := a.watcher.Run(ctx, watch.Job{
		RolloutID: in.RolloutID, Attempt: in.Attempt, SandboxID: in.SandboxID(), Kind: kind, Env: env, Sandboxes: sandboxes,
		Work: agent.Job{
			Instruction: in.Instruction, ObeyProject: in.ObeyProject, Solution: in.Solution, React: in.React, Episode: in.Episode, Model: in.Model, MaxOutput: max(in.Model.MaxTokensCap, 0),
		},
		Limits: in.Limits, Logger: a.loggerOf("RunAgent", in.Target),
	})
	if err != nil {
		return AgentResult{}, err
	}
	causes, err := a.ranOut(ctx, in.Target, rollout.PhaseAgent)
	if res.Error != "" && len(causes) > 0 {
		res.Error += "; " + rollout.CausesInWords(causes)
	}
	return AgentResult{Outcome: res.Outcome, ExitCode: res.ExitCode, Error: res.Error, Turns: res.Turns, SessionID: res.SessionID, Malformed: res.Malformed, Held: res.Held}, err
}

// openBeforeLaunch opens the route of an agent on the host that was not launched yet. A launched one has its route. Where the gateway has lost it, a
// new one would lack the turns so far.
func (a *Activities) openBeforeLaunch(ctx context.Context, sb *sandbox.Sandbox, in AgentInput) error {
	_, err := agent.AttachProcess(ctx, sb)
	if fault.Is(err, fault.NotFound) {
		return a.open(ctx, ProxyInput{Target: in.Target, Agent: in.Agent, Mode: in.Mode, Model: in.Model, Limits: in.Limits})
	}
	return err
}

// toolEnv is what the tools of a rollout work with.
func (a *Activities) toolEnv(t Target, sb *sandbox.Sandbox) tool.Env {
	return tool.Env{Sandbox: sb, Record: a.o.Store.ToolRecord(t.RolloutID, t.Attempt)}
}

// openEpisode lets the tool service take calls in the sandbox until close is called.
func (a *Activities) openEpisode(ctx context.Context, sb *sandbox.Sandbox, in AgentInput, scoring bool) (_ *live.Episode, closeIt func(), err error) {
	config := in.Episode.Filled()
	selected, err := a.o.Tools.Select(config.EnabledToolsets, config.DisabledToolsets)
	if err != nil {
		return nil, nil, err
	}
	since, err := sb.Since(ctx)
	if err != nil {
		return nil, nil, err
	}
	tools := selected.BindLater(ctx, a.toolEnv(in.Target, sb))
	o := live.Options{ID: sb.ID(), Scoring: scoring, Tools: tools, Files: sb, MaxSteps: config.MaxSteps, Since: since}
	if !scoring { // what a grader does is no work of the policy
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
