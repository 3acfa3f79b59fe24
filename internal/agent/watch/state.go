package watch

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// What an agent says of itself travels through the workflow's history; it may say anything, and at any length.
const (
	maxError     = 4000 // characters
	maxSessionID = 200
	maxWaiting   = 1000
)

// gatewayPatience is how long the gateway may be away before the watch gives up: sandboxd holds the agent's calls meanwhile, so a
// restart of the gateway costs nothing. A probe of the endpoint waits as long for the end of a pause.
const gatewayPatience = 3 * time.Minute

// startGrace is how long after its first launch an agent's time begins at the latest.
const startGrace = 5 * time.Minute

// State is what is known of an agent and its route. Times are by this process's clock.
type State struct {
	Limits  rollout.Limits
	NoModel bool // the agent makes no model calls
	Launch  agent.Launch
	Now     time.Time

	// Before the first model call:
	Progress time.Time     // when this launch last made progress; its begin at first, or that of its watch
	CPU      time.Duration // that the sandbox has used since this launch
	sampled  time.Time     // when CPU was measured

	Alive time.Time // when something last changed
	Spent time.Time // when the budget was first seen spent; zero: it is not
	Away  time.Time // since when the gateway does not answer; zero: it does

	// Of an agent that runs in the worker: for how long it did not, apart from Route.Held and from what is not settled yet.
	Absent    time.Duration
	unsettled absence
	routeAt   time.Time // when Route was seen

	Agent agent.Status
	Route gateway.RouteStatus

	Unprobed time.Time // since when the endpoint was to be asked from outside the sandbox
	Probed   bool      // it was
	Probe    error     // what it answered; nil: it is well
}

// launched begins with a new launch.
func (s *State) launched(l agent.Launch) {
	s.Launch, s.Agent, s.CPU, s.sampled = l, agent.Status{SessionID: s.Agent.SessionID}, 0, l.Began
	s.Progress = l.Began
}

// attached takes in that the launch was not watched until now: what progress it made is not known.
func (s *State) attached(now time.Time) { s.Progress, s.sampled = now, now }

// sawAgent takes in a status of the agent.
func (s *State) sawAgent(now time.Time, st agent.Status) {
	st.Error, st.SessionID = text.HeadUTF8(st.Error, maxError), text.HeadUTF8(st.SessionID, maxSessionID)
	if st.SessionID == "" {
		st.SessionID = s.Agent.SessionID // a dead agent may not tell it any more
	}
	if s.Alive.IsZero() || st.LastSign.After(s.Agent.LastSign) {
		s.Alive = now
	}
	if st.Ready && !s.Agent.Ready {
		s.Progress = now
	}
	s.Now, s.Agent = now, st
}

// sawRoute takes in a status of the route.
func (s *State) sawRoute(now time.Time, route gateway.RouteStatus) {
	if route.FirstCallAt.IsZero() {
		route.FirstCallAt = s.Route.FirstCallAt // a restarted gateway forgets calls that it does not record
	}
	route.Held = max(route.Held, s.Route.Held) // a change may come after a status that was asked for later
	changed := route.InFlight > 0 || route.InFlight != s.Route.InFlight || route.Turns != s.Route.Turns || !route.LastCallAt.Equal(s.Route.LastCallAt)
	if s.Alive.IsZero() || changed {
		s.Alive = now
	}
	if s.Spent.IsZero() && route.BudgetSpent != "" {
		s.Spent = now
	}
	s.Now, s.Away, s.Route, s.routeAt = now, time.Time{}, route, now
	s.settleAbsence()
}

// sawNoGateway takes in that the gateway does not answer: an error once that lasts, or will.
func (s *State) sawNoGateway(now time.Time, err error) error {
	if s.Away.IsZero() {
		s.Away = now
	}
	if !fault.Is(err, fault.Unavailable) || now.Sub(s.Away) > gatewayPatience {
		return err
	}
	s.Now, s.Alive = now, now
	return nil
}

// sawCPU takes in the CPU time that the sandbox has used since this launch. An agent that takes this share of a core works, and is not
// stalled, however long a busy machine lets it wait.
func (s *State) sawCPU(now time.Time, used time.Duration, share float64) {
	if took := now.Sub(s.sampled); took > 0 && float64(used-s.CPU) >= share*float64(took) {
		s.Progress = now
	}
	s.Now, s.CPU, s.sampled = now, used, now
}

// end is when the agent's time is up. How long the gateway holds its calls back is not the agent's doing, nor is for how long no worker runs it.
func (s *State) end() time.Time { return s.began().Add(s.Limits.Agent + s.extension()) }

// began is when the agent's time begins: at the first model call, since how long a busy host takes to bring the agent up is not the agent's doing.
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

// extension is by how much the agent's time is extended. Only the gateway's own word counts, and the worker's.
func (s *State) extension() time.Duration { return min(s.notItsOwn(), s.Limits.Held) }

// notItsOwn is for how long the gateway held calls back, or no worker ran the agent.
func (s *State) notItsOwn() time.Duration { return s.Route.Held + s.absent() }

// tooLong says that a time is longer than the agent's may be extended. Limits of an earlier build have no such bound.
func (s *State) tooLong(d time.Duration) bool { return s.Limits.Held > 0 && d > s.Limits.Held }

// noCall says that the agent has not called its model yet, in any launch, and that it should have. An agent on the host that waits for the
// endpoint to tokenise its first prompt has.
func (s *State) noCall() bool {
	return !s.NoModel && s.Route.FirstCallAt.IsZero() && s.Route.InFlight == 0 && s.Route.OwedSince.IsZero()
}

// waiting is why the agent gets no answer, for people; "": nothing is wrong.
func (s *State) waiting() string {
	if s.Route.Trouble == "" {
		return ""
	}
	return "model endpoint: " + text.HeadUTF8(s.Route.Trouble, maxWaiting)
}

// exitCode is the agent's own, or -1 when it did not end by itself.
func (s *State) exitCode() int {
	if !s.Agent.Done {
		return -1
	}
	return s.Agent.ExitCode
}
