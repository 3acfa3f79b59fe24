package activities_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The table is the order in which the signs of an agent's end count.
func TestVerdict(t *testing.T) {
	t.Parallel()
	limits := rollout.Limits{Agent: 10 * time.Minute, FirstCall: time.Minute, Quiet: 5 * time.Minute}
	called := gateway.RouteStatus{FirstCallAt: time.Now(), Turns: 2}
	with := func(change func(*gateway.RouteStatus)) gateway.RouteStatus {
		r := called
		change(&r)
		return r
	}
	spent := with(func(r *gateway.RouteStatus) { r.BudgetSpent = gateway.BudgetTurns })
	refused := with(func(r *gateway.RouteStatus) {
		r.Failure = &gateway.Failure{Kind: fault.UpstreamRefused, Message: "bad key"}
	})
	done := agent.Status{Done: true}
	broken := agent.Status{Done: true, ExitCode: 1, Error: "boom"}
	for name, c := range map[string]struct {
		look    activities.Look
		do      string
		outcome rollout.Outcome
		text    string
		kind    fault.Kind
	}{
		"at work":              {look: activities.Look{Route: called}, do: "go on"},
		"not called yet":       {look: activities.Look{SinceLast: 59 * time.Second}, do: "go on"},
		"done":                 {look: activities.Look{Route: called, Agent: done}, do: "end", outcome: rollout.Completed},
		"broke off":            {look: activities.Look{Route: called, Agent: broken}, do: "end", outcome: rollout.AgentFailed, text: "boom"},
		"exit code alone":      {look: activities.Look{Route: called, Agent: agent.Status{Done: true, ExitCode: 2}}, do: "end", outcome: rollout.AgentFailed, text: "exit code 2"},
		"out of time":          {look: activities.Look{Route: called, SinceFirst: 10 * time.Minute}, do: "end", outcome: rollout.AgentTimeout, text: "10m0s"},
		"done just in time":    {look: activities.Look{Route: called, Agent: done, SinceFirst: 10 * time.Minute}, do: "end", outcome: rollout.Completed},
		"aborted":              {look: activities.Look{Route: with(func(r *gateway.RouteStatus) { r.Ended = "enough" }), Agent: done}, do: "end", outcome: rollout.Aborted, text: "enough"},
		"ended by ourselves":   {look: activities.Look{Route: with(func(r *gateway.RouteStatus) { r.Ended = activities.EndedPrefix + "agent_timeout: late: very" }), Agent: broken}, do: "end", outcome: rollout.AgentTimeout, text: "late: very"},
		"completed, then died": {look: activities.Look{Route: with(func(r *gateway.RouteStatus) { r.Ended = activities.EndedPrefix + "completed: " })}, do: "end", outcome: rollout.Completed},

		"model refuses":              {look: activities.Look{Route: refused}, do: "end", kind: fault.UpstreamRefused, text: "bad key"},
		"model refuses, agent broke": {look: activities.Look{Route: refused, Agent: broken}, do: "end", kind: fault.UpstreamRefused, text: "bad key"},
		"model failed, agent coped":  {look: activities.Look{Route: refused, Agent: done}, do: "end", outcome: rollout.Completed},

		"budget spent, agent ends":    {look: activities.Look{Route: spent, Agent: done}, do: "end", outcome: rollout.BudgetExhausted, text: "budget of turns"},
		"budget spent, agent breaks":  {look: activities.Look{Route: spent, Agent: broken}, do: "end", outcome: rollout.BudgetExhausted},
		"budget spent, just now":      {look: activities.Look{Route: spent, SinceSpent: 10 * time.Second}, do: "go on"},
		"budget spent, agent goes on": {look: activities.Look{Route: spent, SinceSpent: 20 * time.Second}, do: "end", outcome: rollout.BudgetExhausted},

		"no first call":                 {look: activities.Look{Launch: 1, SinceLast: time.Minute}, do: "relaunch", text: "no model call within 1m0s"},
		"no first call, being made":     {look: activities.Look{Launch: 1, SinceLast: time.Minute, Route: gateway.RouteStatus{InFlight: 1}}, do: "go on"},
		"no first call, third launch":   {look: activities.Look{Launch: 3, SinceLast: time.Minute}, do: "end", kind: fault.AgentFailed, text: "in the last of 3 launches"},
		"ended without a call":          {look: activities.Look{Launch: 2, Agent: broken}, do: "relaunch", text: "without a call of its model"},
		"ended without a call, well":    {look: activities.Look{Launch: 3, Agent: done}, do: "end", kind: fault.AgentFailed},
		"would not take instruction":    {look: activities.Look{Launch: 1, Stuck: "not listening"}, do: "relaunch", text: "not listening"},
		"launched late, time is up":     {look: activities.Look{Launch: 2, SinceFirst: 10 * time.Minute, SinceLast: time.Minute}, do: "end", kind: fault.AgentFailed, text: "no model call within the agent's 10m0s"},
		"quiet":                         {look: activities.Look{Route: called, SinceStir: 5 * time.Minute}, do: "end", outcome: rollout.AgentFailed, text: "no sign of life"},
		"quiet, and never called":       {look: activities.Look{SinceStir: 5 * time.Minute}, do: "go on"},
		"quiet, but a call is in work":  {look: activities.Look{Route: with(func(r *gateway.RouteStatus) { r.InFlight = 1 }), SinceStir: 5 * time.Minute}, do: "go on"},
		"no verdict without a gateway":  {look: activities.Look{Away: true, Agent: broken, SinceFirst: time.Hour}, do: "go on"},
		"abort beats a refusing model":  {look: activities.Look{Route: with(func(r *gateway.RouteStatus) { *r = refused; r.Ended = "enough" })}, do: "end", outcome: rollout.Aborted},
		"refusing model beats a budget": {look: activities.Look{Route: with(func(r *gateway.RouteStatus) { *r = refused; r.BudgetSpent = "turns" }), Agent: broken}, do: "end", kind: fault.UpstreamRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.look.Limits = limits
			do, outcome, text, err := activities.Verdict(c.look)
			require.Equal(t, c.do, do)
			require.Equal(t, c.outcome, outcome)
			require.Equal(t, c.kind, fault.KindOf(err))
			if err != nil {
				text = err.Error()
			}
			require.Contains(t, text, c.text)
		})
	}
}
