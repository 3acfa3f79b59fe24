package watch

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// budgetGrace is what an agent whose budget is spent gets to end by itself: it is being answered with empty completions.
const budgetGrace = 15 * time.Second

// callSlack is what a call may take over its bound until its failure is known.
const callSlack = 30 * time.Second

// Action is what to do next.
type Action int

const (
	Continue Action = iota
	Relaunch
	Probe // ask the endpoint from outside the sandbox, then decide again
	End
)

// Decision is what a State means: how the agent's work ended, or that it goes on.
type Decision struct {
	Action  Action
	Outcome rollout.Outcome // of End
	Text    string          // for people
	Err     error           // of End, instead of an outcome: infrastructure failed, and the reward is null
}

// Decide is the rule. The order is the priority of causes: a wish, what the model endpoint did, what was used up, what the agent
// did, and what it failed to do.
func Decide(s State) Decision {
	switch {
	case !s.Away.IsZero(): // half of the facts are missing
		return Decision{}
	case s.Route.Ended != "":
		return routeEnded(s.Route.Ended)
	case s.Route.Failure != nil && !s.Agent.Answered():
		return s.blame()
	case s.Route.BudgetSpent != "" && (s.Agent.Done || s.Now.Sub(s.Spent) > budgetGrace):
		return Decision{Action: End, Outcome: rollout.BudgetExhausted, Text: "the budget of " + s.Route.BudgetSpent + " is spent"}
	case s.Agent.Done && s.noCall() && !s.Agent.Overflowed:
		return s.relaunch(fmt.Sprintf("the agent ended without a call of its model (exit code %d): %s", s.Agent.ExitCode, s.Agent.Error))
	case s.Agent.Done && s.Agent.Left:
		return Decision{Action: End, Outcome: rollout.Aborted, Text: s.failure()}
	case s.Agent.Answered():
		return Decision{Action: End, Outcome: rollout.Completed}
	case s.Agent.Done:
		return failed(s.failure())
	case !s.Now.Before(s.end()):
		return s.timedOut()
	case s.noCall() && s.stalled():
		return s.relaunch(fmt.Sprintf("no model call within %s of the agent's launch, and no progress towards one", s.Now.Sub(s.Launch.Began).Round(time.Second)))
	case !s.noCall() && s.Route.InFlight == 0 && s.Now.Sub(s.Alive) >= s.Limits.Quiet:
		return failed(fmt.Sprintf("no sign of life from the agent for %s", s.Limits.Quiet))
	default:
		return Decision{}
	}
}

func infra(kind fault.Kind, format string, args ...any) Decision {
	return Decision{Action: End, Err: fault.New(kind, format, args...)}
}

func failed(why string) Decision {
	return Decision{Action: End, Outcome: rollout.AgentFailed, Text: why}
}

func (s *State) failure() string {
	if s.Agent.Error != "" {
		return s.Agent.Error
	}
	return fmt.Sprintf("the agent ended with exit code %d", s.Agent.ExitCode)
}

// stalled says that a launch which has not called its model makes no progress towards it: it neither worked nor became ready
// for the bound, or it used that much CPU time for nothing.
func (s *State) stalled() bool {
	return s.Now.Sub(s.Progress) >= s.Limits.FirstCall || s.CPU >= s.Limits.FirstCall
}

// timedOut decides when the agent's time is up, with what it was extended by. Other time for which the endpoint owed an answer is not the agent's either: a
// call that is open then is waited for, within its own bound, and decides.
func (s *State) timedOut() Decision {
	end := s.end()
	open := s.owedSince(end)
	unanswered := s.unanswered(end) - min(s.Route.Held, s.Limits.Held)
	switch {
	case s.noCall(): // the policy was never asked
		return infra(fault.AgentFailed, "no model call within %s of the agent's launch, in %d launches", end.Sub(s.Launch.First), s.Launch.Number)
	case s.tooLong(s.Route.Held):
		return infra(fault.UpstreamFailed, "model endpoint: the gateway held the agent's calls back for %s, and extends its time by %s at most",
			s.Route.Held.Round(time.Second), s.Limits.Held)
	case s.tooLong(s.notItsOwn()):
		return infra(fault.Timeout, "no worker ran the agent for %s, and the gateway held its calls back for %s; its time is extended by %s at most",
			s.absent().Round(time.Second), s.Route.Held.Round(time.Second), s.Limits.Held)
	case 2*unanswered >= s.Limits.Agent:
		return infra(fault.UpstreamFailed, "model endpoint: it owed answers for %s of the agent's %s", unanswered.Round(time.Second), s.Limits.Agent)
	case !open.IsZero() && s.Now.Sub(open) < s.Limits.Call+callSlack+s.extension(): // it may have been held back
		return Decision{}
	case !open.IsZero():
		return infra(fault.UpstreamFailed, "model endpoint: the call open at the end of the agent's %s was not answered within %s", s.Limits.Agent, s.Limits.Call)
	default:
		return Decision{Action: End, Outcome: rollout.AgentTimeout, Text: fmt.Sprintf("the agent did not end within %s", s.Limits.Agent)}
	}
}

// owedSince is since when the endpoint owes an answer to the agent's own call, if that was before end; else zero. Calls of other
// processes do not count, nor does a reply that grows: then the policy takes its time.
func (s *State) owedSince(end time.Time) time.Time {
	if !s.Route.OwedSince.Before(end) {
		return time.Time{}
	}
	return s.Route.OwedSince
}

// unanswered is for how much of the time until end the endpoint owed an answer.
func (s *State) unanswered(end time.Time) time.Duration {
	owed := s.Route.Owed
	if open := s.owedSince(end); !open.IsZero() {
		owed += end.Sub(open)
	}
	return owed
}

// blame decides on a final failure of the agent's own call; calls of other processes and sessions never get here. After a refusal
// the endpoint is asked from outside the sandbox. One that answered this agent before, answers a probe, and forbids a call objects to what
// the agent wrote: that is the policy's doing.
func (s *State) blame() Decision {
	f := s.Route.Failure
	switch {
	case f.Kind == fault.Unavailable:
		return infra(f.Kind, "%s", f.Message)
	case f.Kind != fault.UpstreamRefused:
		return infra(f.Kind, "model endpoint: %s", f.Message)
	case !s.Probed:
		return Decision{Action: Probe}
	case s.Probe == nil && f.Status == http.StatusForbidden && s.Route.Turns > 0:
		return failed(fmt.Sprintf("model endpoint: %s; it answered the calls before, and answers others", f.Message))
	case s.Probe == nil:
		return infra(f.Kind, "model endpoint: %s; asked from outside the sandbox, it answers", f.Message)
	default:
		return infra(f.Kind, "model endpoint: %s; asked from outside the sandbox: %v", f.Message, s.Probe)
	}
}

// relaunch gives an agent that never reached its model another launch, here or elsewhere. What it left undone says nothing
// about the policy: it is never graded.
func (s *State) relaunch(why string) Decision {
	if s.Launch.Number < agent.MaxLaunches {
		return Decision{Action: Relaunch, Text: why}
	}
	return infra(fault.AgentFailed, "%s, in the last of %d launches", why, agent.MaxLaunches)
}

// EndedPrefix begins the reasons with which the watch itself ends a route, so that a second watch tells them from an abort.
const EndedPrefix = "agent phase over: "

// reason is the reason with which the route is ended. It carries the outcome: a watch after a crash comes to the same.
func (d Decision) reason() string { return EndedPrefix + string(d.Outcome) + ": " + d.Text }

// routeEnded decides on a route that was ended: by an earlier watch of this agent, or by an abort.
func routeEnded(reason string) Decision {
	own, ok := strings.CutPrefix(reason, EndedPrefix)
	if !ok {
		return Decision{Action: End, Outcome: rollout.Aborted, Text: reason}
	}
	outcome, text, _ := strings.Cut(own, ": ")
	return Decision{Action: End, Outcome: rollout.Outcome(outcome), Text: text}
}
