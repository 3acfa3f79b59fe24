package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// delegatingReply is a complete reply that starts a subagent with the prompt "hi".
var delegatingReply = strings.NewReplacer(
	`{"content":"Hel"}`,
	`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"task","arguments":"{\"prompt\":\"hi\"}"}}]}`,
	`{"content":"lo"}`,
	`{}`,
	`"finish_reason":"stop"`,
	`"finish_reason":"tool_calls"`,
).Replace(goodReply)

// A call of another process or session is recorded as foreign and never trained on. A subagent that a turn of a known
// session started is not foreign.
func TestForeignCalls(t *testing.T) {
	t.Parallel()

	const own, session, parent = "agent.1", "X-Session-Id", "X-Parent-Session-Id"

	ofAgent := []string{wire.OriginHeader, own, session, "s1"}

	ofSubagent := []string{wire.OriginHeader, own, session, "s2", parent, "s1"}
	for _, tc := range []struct {
		name    string
		headers []string
		want    rollout.TurnKind

		// headers of earlier calls
		before [][]string
	}{
		{"the agent's own", ofAgent, rollout.KindAgent, nil},
		{"its subagent's", ofSubagent, rollout.KindSubagent, [][]string{ofAgent}},
		{"a subagent's of that", []string{wire.OriginHeader, own, session, "s3", parent, "s2"}, rollout.KindSubagent, [][]string{ofAgent, ofSubagent}},
		{"a subagent's that no turn started", ofSubagent, rollout.KindForeign, nil},
		{"a subagent's that a foreign call started", ofSubagent, rollout.KindForeign, [][]string{{wire.OriginHeader, "other", session, "s1"}}},
		{"a child's", []string{wire.OriginHeader, own + "/child", session, "s1"}, rollout.KindForeign, nil},
		{"another process's", []string{wire.OriginHeader, "other", session, "s1"}, rollout.KindForeign, nil},
		{"no process's", []string{session, "s1"}, rollout.KindForeign, nil},
		{"without a session", []string{wire.OriginHeader, own}, rollout.KindForeign, nil},
		{"of another session", []string{wire.OriginHeader, own, session, "s9"}, rollout.KindForeign, nil},
		{"of a session that another process began", []string{wire.OriginHeader, "other", session, "s8", parent, "s1"}, rollout.KindForeign, nil},
		{"that is not learnt by it", []string{wire.OriginHeader, own, session, "s8"}, rollout.KindForeign, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, says(delegatingReply))
			r := h.route(e.URL)
			r.Origin = own
			url := h.open(t, r)
			require.NoError(t, h.client.AddSessions(t.Context(), r.ID, "", "s1"))

			for _, headers := range tc.before {
				require.Equal(t, 200, send(t.Context(), url, "", streamed, headers...).status)
			}

			require.Equal(t, 200, send(t.Context(), url, "", streamed, tc.headers...).status)
			turns := h.turns(t, r.ID)
			last := turns[len(turns)-1]
			require.Equal(t, tc.want, last.Kind)
			require.Equal(t, tc.want == rollout.KindAgent, last.Train)
			require.Equal(t, tc.want == rollout.KindForeign, last.Branch == rollout.BranchForeign)
		})
	}
}

// Sessions survive a restart. Calls of descendant processes count as the agent's if the route permits it.
func TestSessionsAreKept(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	r := h.route(e.URL)
	r.Origin, r.OriginChildren = "agent.1", true
	h.open(t, r)
	require.NoError(t, h.client.AddSessions(t.Context(), r.ID, "", "s1"))
	h.stop()
	h.start(t)

	url := h.channels.url(t, r.SandboxID)
	for i, session := range []string{"s1", "s2"} {
		send(t.Context(), url, "", streamed, wire.OriginHeader, "agent.1/child", "X-Session-Id", session)
		require.Equal(t, []rollout.TurnKind{rollout.KindAgent, rollout.KindForeign}[i], h.turns(t, r.ID)[i].Kind)
	}
}

// A call of a process that a model may have started is foreign, whatever it says: it trains nothing, and its failure is
// not the endpoint's. Calls of the agent's own processes are not, also when they begin a conversation. Calls of an
// agent's helpers continue the recorded one.
func TestCallsOfToolsAreForeign(t *testing.T) {
	t.Parallel()

	const continued = `{"messages":[{"role":"system","content":"You are an agent."},{"role":"user","content":"hi"},` +
		`{"role":"assistant","content":"Hello"},{"role":"user","content":"You did well. Say so."}]}`

	good := says(goodReply)
	h, e := newHost(t), newEngine(t, good, good, good, good, good, answers(404, `{"message":"no such model"}`))
	r := h.route(e.URL)
	r.Origin, r.OriginChildren = "agent-*", true

	url := h.open(t, r)
	for _, c := range []struct {
		origin, body string
		status       int
		want         rollout.TurnKind
	}{
		{"agent-1", streamed, 200, rollout.KindAgent},
		{"agent-1/child", streamed, 200, rollout.KindAgent},
		{"agent-1/tool/child", continued, 200, rollout.KindForeign},
		{"agent-1/helper/child", continued, 200, rollout.KindAgent},
		{"agent-1/helper/child", streamed, 200, rollout.KindForeign},
		{"agent-1/tool/child", streamed, 400, rollout.KindForeign},
	} {
		require.Equal(t, c.status, send(t.Context(), url, "", c.body, wire.OriginHeader, c.origin).status)
		turns := h.turns(t, r.ID)
		last := turns[len(turns)-1]
		require.Equal(t, c.want, last.Kind, c.origin)
		require.Equal(t, c.want == rollout.KindAgent, last.Train, c.origin)
	}

	require.Nil(t, h.status(t, r.ID).Failure)
}

// Calls of a launch wait for the registration of its session, also after a restart of the gateway. So whether they are
// the agent's does not depend on which comes first.
func TestCallsWaitForTheirSession(t *testing.T) {
	t.Parallel()

	const session, calls = "X-Session-Id", 20

	h, e := newHost(t), newEngine(t, says(goodReply))
	r := h.route(e.URL)
	r.Origin, r.Sessions = "agent-*", true
	h.open(t, r)
	require.NoError(t, h.client.AddSessions(t.Context(), r.ID, "agent-1", "s1"))
	h.stop()
	h.start(t)
	url := h.channels.url(t, r.SandboxID)

	var own, forged []<-chan reply
	for range calls {
		own = append(own, startSend(t, url, "", streamed, wire.OriginHeader, "agent-2", session, "s2"))
		forged = append(forged, startSend(t, url, "", streamed, wire.OriginHeader, "agent-2", session, "s9"))
	}

	require.Equal(t, 200, send(t.Context(), url, "", streamed, wire.OriginHeader, "agent-1", session, "s1").status)
	require.NoError(t, h.client.AddSessions(t.Context(), r.ID, "agent-2", "s2"))

	for _, call := range append(own, forged...) {
		require.Equal(t, 200, await(t, call).status)
	}

	kinds := map[rollout.TurnKind]int{}
	for _, turn := range h.turns(t, r.ID) {
		kinds[turn.Kind]++
		require.Equal(t, turn.Kind == rollout.KindForeign, turn.Lineage == "s9")
	}

	require.Equal(t, map[rollout.TurnKind]int{rollout.KindAgent: calls + 1, rollout.KindForeign: calls}, kinds)
}

// A call that waits for the registration of its session ends with the route.
func TestWaitingCallsEndWithTheRoute(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	r := h.route(e.URL)
	r.Origin, r.Sessions = "agent-*", true
	url := h.open(t, r)
	call := startSend(t, url, "", streamed, wire.OriginHeader, "agent-1", "X-Session-Id", "s1")
	require.NoError(t, h.client.End(t.Context(), r.ID, "over"))
	require.Contains(t, await(t, call).body, `"content":""`)
	require.Empty(t, e.requests())
}

// A refused foreign call does not count as a failure of the endpoint. Otherwise the agent could cause its
// rollout to be repeated.
func TestForeignFailuresAreNotTheRoutes(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, answers(404, `{"message":"no such model"}`))
	r := h.route(e.URL)
	r.Origin = "agent.1"
	url := h.open(t, r)
	require.Equal(t, 400, send(t.Context(), url, "", streamed, wire.OriginHeader, "shell").status)
	require.Nil(t, h.status(t, r.ID).Failure)
	require.Equal(t, 400, send(t.Context(), url, "", streamed, wire.OriginHeader, "agent.1").status)
	require.NotNil(t, h.status(t, r.ID).Failure)
}

// A call over an API that the endpoint lacks is no failure of the endpoint once it has answered the agent
// over another. Otherwise a program of the agent could end its rollout without a grade.
func TestRefusedOverAnotherAPI(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, answers(404, ""), says(goodReply), answers(404, ""))
	url := h.open(t, h.route(e.URL))
	require.Equal(t, 400, sendTo(t.Context(), url+"/v1/messages", "a", streamed).status)
	require.NotNil(t, h.status(t, "r1.1").Failure, "the endpoint has answered nothing")

	r := h.route(e.URL)
	r.ID, r.SandboxID, r.RolloutID = "r2.1", "r2.1", "r2"
	url = h.open(t, r)
	require.Equal(t, 200, send(t.Context(), url, "b", streamed).status)
	require.Equal(t, 400, sendTo(t.Context(), url+"/v1/messages", "c", streamed).status)
	require.Nil(t, h.status(t, r.ID).Failure)
	require.Equal(t, 400, send(t.Context(), url, "d", streamed).status)
	require.NotNil(t, h.status(t, r.ID).Failure)
}

// A foreign call does not choose the API by which the endpoint is probed.
func TestForeignCallsDoNotChooseTheAPIOfProbes(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	r := h.route(e.URL)
	r.Origin = "agent.1"
	url := h.open(t, r)
	require.Equal(t, 200, send(t.Context(), url, "a", streamed, wire.OriginHeader, "agent.1").status)
	require.Equal(
		t,
		200,
		sendTo(t.Context(), url+"/v1/completions", "b", `{"prompt":"x"}`, wire.OriginHeader, "shell").status,
	)
	require.NoError(t, h.client.Probe(t.Context(), r.ID))

	paths := e.paths()
	require.Equal(t, "/v1/chat/completions", paths[len(paths)-1])
}

// Failed foreign calls do not delay new rollouts of the endpoint.
func TestForeignFailuresAreNotTheEndpoints(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, answers(503, ""))
	r := h.route(e.URL)
	r.Origin, r.Model.Endpoint = "agent.1", "vllm"
	url := h.open(t, r)
	call := startSend(t, url, "", streamed, wire.OriginHeader, "shell")
	require.Eventually(t, func() bool { return len(e.requests()) > 4 }, patience, pollStep)
	require.NoError(t, h.client.Ready(t.Context(), "vllm"))
	require.NoError(t, h.client.End(t.Context(), r.ID, "over"))
	await(t, call)
}

// Each call that reaches the endpoint counts as a turn, including foreign calls, calls that look like
// titles, and abandoned calls.
func TestEveryCallCountsForTheBudget(t *testing.T) {
	t.Parallel()

	const title = `{"messages":[{"role":"system","content":"You are a title generator."}]}`
	for name, tc := range map[string]struct {
		body    string
		headers []string

		// calls that reach the endpoint
		calls int
	}{
		"titles":  {title, nil, 3}, // the first title is free
		"foreign": {streamed, []string{wire.OriginHeader, "shell"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, says(goodReply))
			r := h.route(e.URL)

			r.Origin, r.Limits.Turns = "agent.1", 2
			if len(tc.headers) == 0 {
				r.Origin = ""
			}

			url := h.open(t, r)
			for range 5 {
				require.Equal(t, 200, send(t.Context(), url, "", tc.body, tc.headers...).status)
			}

			require.Len(t, e.requests(), tc.calls)
			require.Equal(t, gatewayapi.BudgetTurns, h.status(t, r.ID).BudgetSpent)
			require.Zero(t, h.status(t, r.ID).Turns, "no turn is the agent's own")
		})
	}
}

// The reply to an agent that hangs up was sampled, so the call counts.
func TestAbandonedCallsCount(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(halfReply(), "")
	e := newEngine(t, hang.serve)
	r := h.route(e.URL)
	r.Limits.Turns = 2

	url := h.open(t, r)
	for n := range 2 {
		ctx, hangUp := contextOf(t)

		call := make(chan reply, 1)
		go func() { call <- send(ctx, url, "", streamed) }()

		await(t, hang.begun)
		hangUp()
		await(t, hang.gone)
		await(t, call)
		require.Eventually(t, func() bool { return len(h.turns(t, r.ID)) == n+1 }, patience, pollStep)
	}

	require.Contains(t, send(t.Context(), url, "", streamed).body, `"content":""`)
	require.Equal(t, gatewayapi.BudgetTurns, h.status(t, r.ID).BudgetSpent)
	h.stop()
	h.start(t)
	require.Contains(t, send(t.Context(), h.channels.url(t, r.SandboxID), "", streamed).body, `"content":""`)
}

// The disk space for the calls of a route is bounded, even if the agent sends as much as it can.
func TestTraceBudget(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, traceBytes(1<<20)), newEngine(t, says(goodReply))

	url := h.open(t, h.route(e.URL))
	for n := 0; h.status(t, "r1.1").BudgetSpent == ""; n++ {
		require.Less(t, n, 10)
		send(t.Context(), url, "", `{"messages":[{"role":"user","content":"`+random(300<<10)+`"}]}`)
	}

	require.Equal(t, gatewayapi.BudgetTrace, h.status(t, "r1.1").BudgetSpent)
	require.Len(t, e.requests(), 4)
}

// A request that repeats the previous one takes little disk space but full space in the exported trace,
// whose size is bounded, too.
func TestTraceBudgetOfRepeatedRequests(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, traceBytes(1<<20)), newEngine(t, says(goodReply))
	url := h.open(t, h.route(e.URL))
	same := `{"messages":[{"role":"user","content":"` + random(900<<10) + `"}]}`

	for n := 0; h.status(t, "r1.1").BudgetSpent == ""; n++ {
		require.Less(t, n, 20)
		send(t.Context(), url, "", same)
	}

	require.Len(t, e.requests(), 10, "ten come to more than eight times the budget")
}
