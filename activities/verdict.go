package activities

import (
	"fmt"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// What an agent says of itself travels through the workflow's history; it may say anything, and at any length.
const (
	maxSaid    = 4000 // characters
	maxSession = 200
)

// budgetGrace is what an agent whose budget is spent gets to end by itself: it is being answered with empty completions.
const budgetGrace = 15 * time.Second

// view is what RunAgent knows. Times are by this process's own clock.
type view struct {
	limits rollout.Limits
	launch int
	stuck  string    // why this launch did not take the instruction; "": it did
	first  time.Time // the first launch's start: the agent's time counts from it
	launched,
	now,
	alive, // when something last changed
	spent, // when the budget was first seen spent
	away time.Time // since when the gateway does not answer; zero: it does
	agent agent.Status
	route gateway.RouteStatus
}

// saw takes a new look at agent and route.
func (v *view) saw(now time.Time, st agent.Status, route gateway.RouteStatus) {
	st.Error, st.SessionID = text.HeadUTF8(st.Error, maxSaid), text.HeadUTF8(st.SessionID, maxSession)
	stirred := route.InFlight > 0 || route.Turns != v.route.Turns || !route.LastCallAt.Equal(v.route.LastCallAt) || st.LastSign.After(v.agent.LastSign)
	if v.alive.IsZero() || stirred {
		v.alive = now
	}
	if v.spent.IsZero() && route.BudgetSpent != "" {
		v.spent = now
	}
	if st.SessionID == "" {
		st.SessionID = v.agent.SessionID // a dead agent may not tell it any more
	}
	if route.FirstCallAt.IsZero() {
		route.FirstCallAt = v.route.FirstCallAt // nor a gateway that restarted, of calls it does not record
	}
	v.now, v.away, v.agent, v.route = now, time.Time{}, st, route
}

// gatewayAway takes a look at which the gateway did not answer: an error only when that lasts, or will.
func (v *view) gatewayAway(now time.Time, err error) error {
	if v.away.IsZero() {
		v.away = now
	}
	if !fault.Is(err, fault.Unavailable) || now.Sub(v.away) > gatewayPatience {
		return err
	}
	v.now, v.alive = now, now
	return nil
}

// exitCode is the agent's own, or -1 when it did not end by itself.
func (v *view) exitCode() int {
	if !v.agent.Done {
		return -1
	}
	return v.agent.ExitCode
}

// step is what to do next.
type step int

const (
	goOn step = iota
	relaunch
	end
)

// verdict is what a view means: how the agent's work ended, or that it goes on.
type verdict struct {
	step    step
	outcome rollout.Outcome
	text    string // for people
	err     error  // instead of an outcome: not the policy's doing
}

// endedPrefix begins the reasons with which RunAgent itself ends a route, so that a second run of it knows them from an abort.
const endedPrefix = "agent phase over: "

// reason is with what the route is ended. It carries the outcome: a second run, after a crash, comes to the same.
func (v verdict) reason() string { return endedPrefix + string(v.outcome) + ": " + v.text }

// verdict decides. The order is the priority of causes: a wish, what the model endpoint did, what was used up, what the agent
// did, and what it failed to do.
func (v *view) verdict() verdict {
	failure, route := v.route.Failure, v.route
	switch {
	case !v.away.IsZero(): // half the picture: no verdict
		return verdict{step: goOn}
	case route.Ended != "":
		return v.ended()
	case failure != nil && !v.answered():
		return verdict{step: end, err: fault.New(failure.Kind, "model endpoint: %s", failure.Message)}
	case route.BudgetSpent != "" && (v.agent.Done || v.now.Sub(v.spent) > budgetGrace):
		return verdict{step: end, outcome: rollout.BudgetExhausted, text: "the budget of " + route.BudgetSpent + " is spent"}
	case v.stuck != "" && v.mute():
		return v.fruitless(v.stuck)
	case v.agent.Done && v.mute():
		return v.fruitless(fmt.Sprintf("the agent ended without a call of its model (exit code %d): %s", v.agent.ExitCode, v.agent.Error))
	case v.agent.Done && v.answered():
		return verdict{step: end, outcome: rollout.Completed}
	case v.agent.Done:
		return verdict{step: end, outcome: rollout.AgentFailed, text: v.failedText()}
	case v.mute() && v.now.Sub(v.first) >= v.limits.Agent: // no time for another launch, and nothing to grade
		return verdict{step: end, err: fault.New(fault.AgentFailed, "no model call within the agent's %s", v.limits.Agent)}
	case v.now.Sub(v.first) >= v.limits.Agent:
		return verdict{step: end, outcome: rollout.AgentTimeout, text: fmt.Sprintf("the agent did not end within %s", v.limits.Agent)}
	case v.mute() && v.now.Sub(v.launched) >= v.limits.FirstCall:
		return v.fruitless(fmt.Sprintf("no model call within %s of the agent's launch", v.limits.FirstCall))
	case !v.mute() && route.InFlight == 0 && v.now.Sub(v.alive) >= v.limits.Quiet:
		return verdict{step: end, outcome: rollout.AgentFailed, text: fmt.Sprintf("no sign of life from the agent for %s", v.limits.Quiet)}
	default:
		return verdict{step: goOn}
	}
}

// ended is the verdict on a route that was ended: by an earlier run of this activity, or by somebody's wish.
func (v *view) ended() verdict {
	own, ok := strings.CutPrefix(v.route.Ended, endedPrefix)
	if !ok {
		return verdict{step: end, outcome: rollout.Aborted, text: v.route.Ended}
	}
	outcome, text, _ := strings.Cut(own, ": ")
	return verdict{step: end, outcome: rollout.Outcome(outcome), text: text}
}

// answered says that the agent ended by itself and well.
func (v *view) answered() bool { return v.agent.Done && v.agent.ExitCode == 0 && v.agent.Error == "" }

// mute says that the agent has not called its model, in any launch.
func (v *view) mute() bool { return v.route.FirstCallAt.IsZero() && v.route.InFlight == 0 }

func (v *view) failedText() string {
	if v.agent.Error != "" {
		return v.agent.Error
	}
	return fmt.Sprintf("the agent ended with exit code %d", v.agent.ExitCode)
}

// fruitless is the verdict on a launch that never reached the model. What it left undone says nothing about the policy, so it
// is tried again here, then elsewhere; it is never graded.
func (v *view) fruitless(text string) verdict {
	if v.launch < maxLaunches {
		return verdict{step: relaunch, text: text}
	}
	return verdict{step: end, err: fault.New(fault.AgentFailed, "%s, in the last of %d launches", text, maxLaunches)}
}
