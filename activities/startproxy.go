package activities

import (
	"context"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// StartProxy opens the gateway's route to the sandbox and returns when the gateway serves the model
// channel. An agent that needs no channel has no StartProxy; RunAgent opens its route.
func (a *Activities) StartProxy(ctx context.Context, in ProxyInput) error {
	ctx, over, err := a.acquireAttempt(ctx, in.Target)
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

	return a.awaitAttached(ctx, in.Target)
}

// open opens the attempt's route, if it is not open.
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

// inspect makes the gateway probe the endpoint while the agent starts. For training it waits for the report
// and refuses an endpoint whose capture level is too low. An endpoint that did not answer the probe is not
// refused, because it may answer later.
func (a *Activities) inspect(ctx context.Context, in ProxyInput) error {
	if !in.Model.Trainable() || in.Mode != rollout.TransparentProxy || !a.callsModel(in.Agent) {
		return nil
	}

	wait := time.Duration(0)
	if in.Model.Purpose == rollout.PurposeTrain {
		wait = gatewayapi.InspectTime
	}

	report, err := a.o.Gateway.Inspect(ctx, in.SandboxID(), wait)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		a.loggerOf("StartProxy", in.Target).WarnContext(ctx, "endpoint not probed", "error", err)
	case in.Model.Purpose == rollout.PurposeTrain && report.CaptureLevel != "" && report.CaptureLevel != rollout.CaptureTokens:
		return fault.New(fault.UpstreamRefused,
			"training needs exact token ids and log probabilities, but the endpoint has capture level %q: %s",
			report.CaptureLevel, strings.Join(report.Findings, "; "))
	}

	return nil
}

// callsModel reports whether an agent makes model calls. For one that makes none the endpoint need not exist.
func (a *Activities) callsModel(name string) bool {
	kind, err := a.o.Agents.Get(name)
	return err != nil || !kind.NoModel
}

// route is the attempt's route. Without an agent's name the calls of all processes count as the agent's.
func (a *Activities) route(in ProxyInput) (gatewayapi.Route, error) {
	r := gatewayapi.Route{
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
		r.Origin, r.OriginChildren, r.Sessions = agent.Processes, kind.Descendants, kind.Sessions
	}

	return r, nil
}

// sandboxCheck is the pause between two checks of a sandbox whose model channel is not served yet.
const sandboxCheck = 500 * time.Millisecond

// awaitAttached waits until the gateway serves the channel. The gateway retries forever, so this checks
// whether the sandbox still exists.
func (a *Activities) awaitAttached(ctx context.Context, t Target) error {
	b, err := a.backend(t)
	if err != nil {
		return err
	}

	changes, stop := a.o.Gateway.Watch(t.SandboxID(), 0, 0)
	defer stop()

	check := time.NewTicker(sandboxCheck)
	defer check.Stop()

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
		case <-check.C:
			if _, err := b.Attach(ctx, t.SandboxID()); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
