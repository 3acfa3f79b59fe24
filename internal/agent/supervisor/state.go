package supervisor

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// Bounds of the texts that an agent reports about itself, which go into the workflow's history.
const (
	// characters
	maxError     = 4000
	maxSessionID = 200
	maxWaiting   = 1000
)

// gatewayPatience is how long the watch waits for a gateway that does not answer. sandboxd holds the
// agent's calls meanwhile, so a restart of the gateway loses no call. A probe of a paused endpoint waits as
// long for the end of the pause.
const gatewayPatience = 3 * time.Minute

// startGrace is the longest time between an agent's first launch and the start of its time.
const startGrace = 5 * time.Minute

// attachGrace is how long a watch that attaches to an agent whose time or route has ended waits at most for
// the status of its end. It covers a poll of OpenCode and a replay of ReACT.
const attachGrace = 15 * time.Second

// State is the latest observation of an agent and its route. Times are by this process's clock.
type State struct {
	Limits rollout.Limits

	// the agent makes no model calls
	NoModel bool
	Launch  agent.Launch
	Now     time.Time

	// Before the first model call:
	// when this launch last made progress; at first when it, or its watch, began
	Progress time.Time

	// used by the sandbox since this launch
	CPU time.Duration

	// when CPU was measured
	sampled time.Time

	// when this watch attached to the launch, or was last suspended; zero: it began the launch
	Attached time.Time

	// when the agent or the route last changed; zero: never
	LastChange time.Time

	// when the budget was first observed as spent; zero: it is not
	BudgetSpentAt time.Time

	// since when the gateway does not answer; zero: it does
	GatewayDown time.Time

	// Downtime is the time in which no worker ran an agent that runs in the worker, without Route.Held and
	// without pending.
	Downtime time.Duration
	pending  downtime

	// when Route was observed
	routeAt time.Time

	Agent agent.Status
	Route gatewayapi.RouteStatus

	// when the first probe of the endpoint was sent
	ProbeFrom time.Time

	// a probe was answered
	Probed bool

	// result of the probe; nil: the endpoint answers
	Probe error
}

// observeLaunch resets the state for a new launch.
func (s *State) observeLaunch(l agent.Launch) {
	s.Launch, s.Agent, s.CPU, s.sampled = l, agent.Status{SessionID: s.Agent.SessionID}, 0, l.Began
	s.Progress = l.Began
}

// observeAttach records that the launch was not watched until now, so its earlier progress is unknown.
func (s *State) observeAttach(now time.Time) {
	s.Attached, s.Progress, s.sampled = now, now, now
}

// observeAgent records a status of the agent.
func (s *State) observeAgent(now time.Time, st agent.Status) {
	st.Error, st.SessionID = text.HeadUTF8(st.Error, maxError), text.HeadUTF8(st.SessionID, maxSessionID)
	if st.SessionID == "" {
		// a dead agent may not report it
		st.SessionID = s.Agent.SessionID
	}

	if s.LastChange.IsZero() || st.LastSign.After(s.Agent.LastSign) {
		s.LastChange = now
	}

	if st.Ready && !s.Agent.Ready {
		s.Progress = now
	}

	s.Now, s.Agent = now, st
}

// observeRoute records a status of the route.
func (s *State) observeRoute(now time.Time, route gatewayapi.RouteStatus) {
	if route.FirstCallAt.IsZero() {
		// a restarted gateway has lost calls that it does not record
		route.FirstCallAt = s.Route.FirstCallAt
	}
	// a change may arrive after a newer status
	route.Held = max(route.Held, s.Route.Held)

	// Between the end of a request to tokenise the first prompt and the call with it there is neither, however long
	// the endpoint was away before.
	if waits(s.Route) || waits(route) {
		s.Progress = now
	}

	changed := route.InFlight > 0 || route.InFlight != s.Route.InFlight || route.Turns != s.Route.Turns ||
		!route.LastCallAt.Equal(s.Route.LastCallAt)
	if s.LastChange.IsZero() || changed {
		s.LastChange = now
	}

	if s.BudgetSpentAt.IsZero() && route.BudgetSpent != "" {
		s.BudgetSpentAt = now
	}

	s.Now, s.GatewayDown, s.Route, s.routeAt = now, time.Time{}, route, now
	s.settleDowntime()
}

// observeGatewayError records that the gateway did not answer. It returns err if that cannot be mended or
// has lasted for gatewayPatience.
func (s *State) observeGatewayError(now time.Time, err error) error {
	if s.GatewayDown.IsZero() {
		s.GatewayDown = now
	}

	if !fault.Is(err, fault.Unavailable) || now.Sub(s.GatewayDown) > gatewayPatience {
		return err
	}

	s.Now, s.LastChange = now, now

	return nil
}

// observeCPU records the CPU time that the sandbox has used since this launch. An agent that uses this
// share of a core makes progress, however slow a busy machine makes it.
func (s *State) observeCPU(now time.Time, used time.Duration, share float64) {
	if took := now.Sub(s.sampled); took > 0 && float64(used-s.CPU) >= share*float64(took) {
		s.Progress = now
	}

	s.Now, s.CPU, s.sampled = now, used, now
}

// deadline is when the agent's time is up.
func (s *State) deadline() time.Time { return s.began().Add(s.Limits.Agent + s.extension()) }

// timeUp reports whether the agent's time is up. A watch that attached too late to have its status in time
// first waits for the agent's end.
func (s *State) timeUp() bool {
	return !s.Now.Before(s.deadline()) && !(s.attachedLate() && s.Now.Sub(s.Attached) < attachGrace)
}

// endedLate reports whether the agent ran, or a call of its model ended, after its time: no watch was there
// at the end of its time, or a call was open. The times of sandboxd and of the gateway count, because an
// agent's own are the policy's.
func (s *State) endedLate() bool {
	return s.Agent.Done && later(s.Agent.Ended, s.Route.LastCallAt).After(s.deadline())
}

func (s *State) attachedLate() bool { return s.Attached.After(s.deadline().Add(-attachGrace)) }

// began is when the agent's time begins: at the first model call, since a busy host may take long to start the agent.
func (s *State) began() time.Time {
	began := s.Launch.First
	if !s.NoModel {
		latest := began.Add(startGrace)
		if call := s.Route.FirstCallAt; call.IsZero() || call.After(latest) {
			began = latest
		} else if call.After(began) {
			began = call
		}
	}

	return began
}

// extension is by how much the agent's time is extended.
func (s *State) extension() time.Duration { return min(s.excluded(), s.Limits.Held) }

// excluded is the time that does not count as the agent's: the gateway held calls back, or no worker ran the agent.
func (s *State) excluded() time.Duration { return s.Route.Held + s.totalDowntime() }

// exceedsExtension reports whether d is longer than the agent's time may be extended. Limits of an earlier
// build have no such bound.
func (s *State) exceedsExtension(d time.Duration) bool { return s.Limits.Held > 0 && d > s.Limits.Held }

// noCall reports whether an agent that uses a model has not called it yet, in any launch. A request to
// tokenise the first prompt counts as a call.
func (s *State) noCall() bool {
	return !s.NoModel && s.Route.FirstCallAt.IsZero() && !waits(s.Route)
}

// waits reports whether a call of the agent, or its request to tokenise a prompt, waits for the endpoint.
func waits(route gatewayapi.RouteStatus) bool { return route.InFlight > 0 || !route.OwedSince.IsZero() }

// waiting is why the agent gets no answer, for people; "" if nothing is wrong.
func (s *State) waiting() string {
	if s.Route.Trouble == "" {
		return ""
	}

	return "model endpoint: " + text.HeadUTF8(s.Route.Trouble, maxWaiting)
}

// exitCode is the agent's exit code, or -1 if it did not end by itself.
func (s *State) exitCode() int {
	if !s.Agent.Done {
		return -1
	}

	return s.Agent.ExitCode
}
