package activities

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/shell"
)

const (
	// watchStep is how often the watch looks at the agent and its route.
	watchStep = time.Second
	// gatewayPatience is how long the gateway may be away before the activity gives up: sandboxd holds the agent's calls
	// meanwhile, so a restart of the gateway costs nothing.
	gatewayPatience = 3 * time.Minute
	// maxLaunches bounds launches of an agent that never calls its model.
	maxLaunches = 3
)

// RunAgent launches the agent on its task, or goes on watching the one that is at work, until it is done or one of its bounds
// ends it. The agent's time counts from its first launch, however often the activity runs.
func (a *Activities) RunAgent(ctx context.Context, in AgentInput) (AgentResult, error) {
	ctx, over, err := a.alone(ctx, in.Target)
	if err != nil {
		return AgentResult{}, err
	}
	defer over()
	kit, err := a.agentOf(in.Agent)
	if err != nil {
		return AgentResult{}, err
	}
	sb, release, err := a.attach(ctx, in.Target)
	if err != nil {
		return AgentResult{}, err
	}
	defer release()
	w := &watch{a: a, kit: kit, sb: sb, in: in, log: a.loggerOf("RunAgent", in.Target), news: newNews(in)}
	return w.run(ctx)
}

// watch is one run of RunAgent.
type watch struct {
	a   *Activities
	kit Agent
	sb  *sandbox.Sandbox
	in  AgentInput
	log *slog.Logger

	view view // what is known, for the verdict
	news news // what was told and saved of it
}

func (w *watch) job() agent.Job {
	return agent.Job{
		Instruction: w.in.Instruction, ObeyProject: w.in.ObeyProject, Model: w.in.Model,
		MaxOutput: max(w.in.Model.MaxTokensCap, 0), Launch: w.view.launch,
	}
}

// run looks, decides and acts until the verdict is an end.
func (w *watch) run(ctx context.Context) (AgentResult, error) {
	w.view.limits = w.in.Limits
	route, err := w.a.o.Gateway.Status(ctx, w.in.SandboxID())
	if err != nil {
		return AgentResult{}, err
	}
	w.view.route = route
	launch, err := lastLaunch(ctx, w.sb)
	if err != nil {
		return AgentResult{}, err
	}
	if launch == 0 && route.Ended != "" { // ended before the agent was ever launched
		return AgentResult{Outcome: rollout.Aborted, ExitCode: -1, Error: route.Ended}, nil
	}
	if err := w.launch(ctx, max(launch, 1)); err != nil {
		return AgentResult{}, err
	}
	for {
		v := w.view.verdict()
		switch v.step {
		case goOn:
			w.news.spread(ctx, w)
			err = w.look(ctx)
		case relaunch:
			err = w.relaunch(ctx, v)
		default:
			return w.finish(ctx, v)
		}
		if err != nil {
			return AgentResult{}, err
		}
	}
}

// look learns how the agent and its route stand.
func (w *watch) look(ctx context.Context) error {
	st, err := w.kit.Wait(ctx, w.sb, w.job(), watchStep)
	if err != nil {
		return err
	}
	return w.saw(ctx, st)
}

// saw takes the agent's status together with its route's of after that: an agent that died of an abort must not look like one
// that died by itself.
func (w *watch) saw(ctx context.Context, st agent.Status) error {
	route, err := w.a.o.Gateway.Status(ctx, w.in.SandboxID())
	if err != nil {
		return w.view.gatewayAway(time.Now(), err)
	}
	w.view.saw(time.Now(), st, route)
	return nil
}

// launch starts the agent's launch n, or attaches to it, and learns from the sandbox since when it, and the first one, runs.
func (w *watch) launch(ctx context.Context, n int) error {
	w.view.launch, w.view.stuck = n, ""
	st, failed := w.kit.Start(ctx, w.sb, w.job())
	if failed != nil && (!fault.Is(failed, fault.Unavailable) || ctx.Err() != nil || !w.view.mute()) {
		return failed
	}
	var err error
	if w.view.launched, err = startOf(ctx, w.sb, n); err != nil {
		return errors.Join(failed, err)
	}
	if w.view.first, err = startOf(ctx, w.sb, 1); err != nil {
		return err
	}
	if failed != nil { // it runs, but would not take its instruction
		w.view.stuck = failed.Error()
	}
	return w.saw(ctx, st)
}

// relaunch gives an agent that came to nothing another try in the same sandbox.
func (w *watch) relaunch(ctx context.Context, v verdict) error {
	w.log.WarnContext(ctx, "relaunching the agent", "launch", w.view.launch+1, "why", v.text)
	if err := w.kit.Stop(ctx, w.sb, w.job()); err != nil {
		return err
	}
	return w.launch(ctx, w.view.launch+1)
}

// finish ends what is still going on, saves the transcript, and makes the verdict the activity's result. The order matters:
// no token is generated any more before the transcript is taken, and it is taken before the process is killed.
func (w *watch) finish(ctx context.Context, v verdict) (AgentResult, error) {
	if v.err != nil {
		w.news.save(ctx, w)
		return AgentResult{}, v.err
	}
	if err := w.a.o.Gateway.End(ctx, w.in.SandboxID(), v.reason()); err != nil {
		return AgentResult{}, err
	}
	w.news.save(ctx, w)
	if !w.view.agent.Done {
		if err := w.kit.Stop(ctx, w.sb, w.job()); err != nil {
			return AgentResult{}, err
		}
	}
	return AgentResult{
		Outcome: v.outcome, ExitCode: w.view.exitCode(), Error: w.explain(ctx, v.text),
		Turns: w.view.route.Turns, SessionID: w.view.agent.SessionID,
	}, nil
}

// explain adds what the sandbox knows of the agent's end.
func (w *watch) explain(ctx context.Context, text string) string {
	if text == "" {
		return ""
	}
	b, err := w.a.backend(w.in.Target)
	if err != nil {
		return text
	}
	if use, err := b.Inspect(ctx, w.sb.ID()); err == nil && use.OOMKills > 0 {
		text += "; the sandbox ran out of memory"
	}
	return text
}

// lastLaunch is the number of the newest launch of the agent in the sandbox; 0: there was none.
func lastLaunch(ctx context.Context, sb *sandbox.Sandbox) (int, error) {
	for n := 1; n <= maxLaunches; n++ {
		there, err := shell.Started(ctx, sb, agent.ProcessName(n))
		if err != nil || !there {
			return n - 1, err
		}
	}
	return maxLaunches, nil
}

// startOf is when a launch of the agent began, by this process's own clock, on which a step of the host's does not tell.
func startOf(ctx context.Context, sb *sandbox.Sandbox, launch int) (time.Time, error) {
	st, err := sb.Status(ctx, agent.ProcessName(launch))
	return time.Now().Add(-st.Age), fault.Wrap(fault.KindOf(err), err, "launch %d of the agent", launch)
}

var _ Gateway = (*gateway.Client)(nil)
