package activities

import (
	"context"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// StartProxy opens the gateway's route to the sandbox and returns when the model channel is being served. RunAgent opens the route of an agent
// that runs on the host, which has no channel.
func (a *Activities) StartProxy(ctx context.Context, in ProxyInput) error {
	ctx, over, err := a.alone(ctx, in.Target)
	if err != nil {
		return err
	}
	defer over()
	a.phase(in.Target, rollout.PhaseProxy)
	_, release, err := a.attach(ctx, in.Target)
	if err != nil {
		return err
	}
	defer release()
	if err := a.open(ctx, in); err != nil {
		return err
	}
	return a.attached(ctx, in.Target)
}

// open opens the attempt's route, or finds it open.
func (a *Activities) open(ctx context.Context, in ProxyInput) error {
	route, err := a.route(in)
	if err != nil {
		return err
	}
	if err := a.o.Gateway.Open(ctx, route); err != nil {
		return err
	}
	return a.inspect(ctx, in)
}

// inspect has the gateway probe the endpoint, beside the start of the agent. Where training is demanded it waits for the report, and
// refuses an endpoint that is known to give less than training needs; one that gave no answer may give one later.
func (a *Activities) inspect(ctx context.Context, in ProxyInput) error {
	if !in.Model.Trainable() || in.Mode != rollout.TransparentProxy || !a.callsModel(in.Agent) {
		return nil
	}
	wait := time.Duration(0)
	if in.Model.Purpose == rollout.PurposeTrain {
		wait = gateway.InspectTime
	}
	report, err := a.o.Gateway.Inspect(ctx, in.SandboxID(), wait)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		a.loggerOf("StartProxy", in.Target).WarnContext(ctx, "endpoint not probed", "error", err)
	case in.Model.Purpose == rollout.PurposeTrain && report.CaptureLevel != "" && report.CaptureLevel != rollout.CaptureTokens:
		return fault.New(fault.UpstreamRefused, "training needs exact token ids and log probabilities, and the endpoint has capture level %q: %s",
			report.CaptureLevel, strings.Join(report.Findings, "; "))
	}
	return nil
}

// callsModel says whether an agent makes model calls. The endpoint of one that makes none may not even exist.
func (a *Activities) callsModel(name string) bool {
	kind, err := a.o.Agents.Get(name)
	return err != nil || !kind.NoModel
}

// route is the attempt's route. Without the agent's name the calls of all processes count as the agent's.
func (a *Activities) route(in ProxyInput) (gateway.Route, error) {
	r := gateway.Route{
		ID: in.SandboxID(), RolloutID: in.RolloutID, Attempt: in.Attempt, SandboxID: in.SandboxID(),
		Capture: in.Mode == rollout.TransparentProxy, Model: in.Model, Limits: in.Limits,
	}
	if in.Agent == "" {
		return r, nil
	}
	kind, err := a.o.Agents.Get(in.Agent)
	switch {
	case err != nil:
		return r, err
	case kind.OnHost:
		r.SandboxID = ""
	default:
		r.Origin, r.OriginChildren = agent.Processes, kind.Descendants
	}
	return r, nil
}

// sandboxCheck is the time between two looks at a sandbox whose model channel is not served yet.
const sandboxCheck = 500 * time.Millisecond

// attached waits until the gateway serves the channel. The gateway retries without end, so a sandbox that died is noticed here.
func (a *Activities) attached(ctx context.Context, t Target) error {
	b, err := a.backend(t)
	if err != nil {
		return err
	}
	changes, stop := a.o.Gateway.Watch(t.SandboxID(), 0, 0)
	defer stop()
	look := time.NewTicker(sandboxCheck)
	defer look.Stop()
	for {
		select {
		case c := <-changes:
			switch {
			case c.Err != nil:
				return c.Err
			case c.Status.Attached:
				return nil
			case c.Status.Ended != "":
				return fault.New(fault.Aborted, "the route was ended: %s", c.Status.Ended)
			}
		case <-look.C:
			if _, err := b.Attach(ctx, t.SandboxID()); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
