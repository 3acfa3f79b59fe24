package e2e

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/lostconn/lostconntest"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Turns with one command of the agent. OpenCode itself ends a command after two minutes, unless the model gives it
// more.
const (
	work = `{tool_calls: [{name: bash, arguments: {command: "echo done > done.txt", description: "Works"}}]}`
	rest = `{tool_calls: [{name: bash, arguments: {command: "sleep 3600", timeout: 3600000, description: "Sleeps"}}]}`

	// of the tool agent
	reactWork = `{tool_calls: [{name: terminal, arguments: {command: "echo done > done.txt"}}]}`
)

// A fault of the endpoint is never graded as a slow policy. Each fault ends the attempt as infra_failed
// without a reward, and the rollout starts another attempt if its limit allows one. An agent that is slow
// itself ends as agent_timeout and is graded. The time limits grow with the time that a rollout takes on this machine
// beside the other tests.
func TestOutcomesOfFaultyEndpoints(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_WORKER_CAPACITY=6"}})
	lost := func(says string) ending {
		return ending{outcome: rollout.InfraFailed, attempts: 2, says: says, kind: fault.UpstreamFailed}
	}
	late := ending{outcome: rollout.AgentTimeout, attempts: 1, reward: 0.5}
	slow := slowness(t, srv.url)

	// OpenCode takes long to start: one attempt shows what a fault within a stream ends as
	once := args{"limits": args{"call_s": 4 * slow, "attempts": 1}}
	lostOnce := func(says string) ending {
		e := lost(says)
		e.attempts = 1

		return e
	}
	react := args{"agent": rollout.AgentReact, "react": args{"tools": "native"}}
	reactOnce := args{"agent": react["agent"], "react": react["react"], "limits": once["limits"]}
	soon := args{"agent_timeout_s": 25 * slow, "limits": args{"call_s": 24 * slow, "attempts": 2}}
	cases := []struct {
		name string

		// of the scripted model
		turns string

		// they override the default arguments
		args args
		want ending
	}{
		{"hangs at once", `[{faults: [{hang: true}]}]`, nil, lost("context deadline exceeded")},
		{"hangs until time is up", `[{faults: [{hang: true}]}]`, soon, lost("model endpoint")},
		{
			"hangs from the second call",
			`[` + reactWork + `, {faults: [{hang: true}]}]`,
			react,
			lost("context deadline exceeded"),
		},
		{
			"hangs in the middle",
			`[{text: one two three, faults: [{hang_after: 2}]}]`,
			reactOnce,
			lostOnce("context deadline exceeded"),
		},
		{"drips", `[{filler: 500, pace: {chunk_delay: 500ms}}]`, reactOnce, lostOnce("context deadline exceeded")},
		{"429 for good", `[{faults: [{status: 429, retry_after: 1s, message: slow down}]}]`, nil, lost("slow down")},
		{
			"500 from the second call",
			`[` + reactWork + `, {faults: [{status: 500, message: out of memory}]}]`,
			react,
			lost("out of memory"),
		},
		{"cut streams", `[{text: one two three, faults: [{cut_after: 2}]}]`, once, lostOnce("EOF")},
		{
			"errors within streams",
			`[` + reactWork + `, {text: one two, faults: [{error_after: 1}]}]`,
			reactOnce,
			lostOnce("scripted failure in the stream"),
		},
		{"no finish reason", `[{text: one, faults: [{no_finish: true}]}]`, reactOnce, lostOnce("model endpoint")},
		{"garbage", `[{faults: [{garbage: true}]}]`, nil, lost("model endpoint")},
		{"another service's JSON", `[{faults: [{not_sse: true}]}]`, nil, lost("model endpoint")},
		{
			"is well again in the second attempt",
			`[` + reactWork + `, {text: Done.}]`,
			args{"base_url": recoveringEndpoint(t), "agent": react["agent"], "react": react["react"]},
			ending{outcome: rollout.Completed, attempts: 2, reward: 0.5},
		},
		{
			"less time than the agent's start takes",
			`[` + work + `, ` + rest + `]`,
			args{"agent_timeout_s": 2, "limits": args{"call_s": 1.9}, "verify": []string{"true", "false"}},
			late,
		},
		{
			"a command without end",
			`[` + work + `, ` + rest + `]`,
			soon,
			late,
		},
		{"samples without end", `[` + work + `, {filler: 20000, pace: {chunk_delay: 100ms}}]`,
			args{"agent_timeout_s": 25 * slow, "limits": args{"call_s": 24.9 * slow, "attempts": 2}}, late},
		{
			"samples beyond the time of a call",
			`[` + reactWork + `, {filler: 20000, pace: {chunk_delay: 100ms}}]`,
			react,
			ending{outcome: rollout.AgentFailed, attempts: 1, reward: 0.5},
		},
	}

	ids := make([]string, len(cases))
	for i, c := range cases {
		asked := args{
			"instruction":     "work",
			"endpoint":        "vllm",
			"base_url":        startModel(t, "turns: "+c.turns).url,
			"model":           "m",
			"verify":          []string{"test -f done.txt", "false"},
			"limits":          args{"call_s": 4 * slow, "attempts": 2},
			"agent_timeout_s": 60 * slow,
		}
		// an agent that gets no part of a reply may be the one that starts faster
		if strings.HasPrefix(c.turns, "[{faults:") {
			asked["agent"] = rollout.AgentReact
		}

		maps.Copy(asked, c.args)
		ids[i] = start(t, srv.url, asked)
	}

	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.want.check(t, finalize(t, srv.url, ids[i])) })
	}
}

// An endpoint that refuses every connection ends a rollout within minutes. Until then its state says what it waits for.
func TestEndpointThatHasNeverAnswered(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	id := start(t, srv.url, args{
		"instruction": "work",
		"endpoint":    "vllm",
		"base_url":    "http://" + lostconntest.Refusing(t) + "/v1",
		"model":       "m",
		"agent":       rollout.AgentReact,
		"verify":      []string{"true"},
		"limits":      args{"attempts": 2},
	})

	waitFor(
		t,
		srv.url,
		id,
		"says that it is refused",
		func(s state) bool { return strings.Contains(s.Waiting, "connection refused") },
	)

	want := ending{outcome: rollout.InfraFailed, attempts: 1, says: "has never answered", kind: fault.UpstreamRefused}
	want.check(t, finalize(t, srv.url, id))
}

// slowness returns how many times longer a rollout takes than on an idle machine with two cores. It is at least 1.
func slowness(t *testing.T, url string) float64 {
	t.Helper()

	const usualS = 6

	r := runRollout(t, url, args{"instruction": "say hello", "endpoint": "scripted"})
	require.Equal(t, rollout.Completed, r.Outcome, deref(r.Error))
	t.Logf("a rollout takes %.1f s", r.WallS)

	return max(1, r.WallS/usualS)
}

// ending is the expected end of a rollout. says is a part of its error. Each attempt except a completed
// last one must have failed because of the endpoint.
type ending struct {
	outcome  rollout.Outcome
	attempts int

	// if the outcome has a reward
	reward float64
	says   string

	// of the last attempt of an infra_failed rollout
	kind fault.Kind
}

func (e ending) check(t *testing.T, got rollout.Result) {
	t.Helper()
	t.Log(deref(got.Error))
	require.Equal(t, e.outcome, got.Outcome, deref(got.Error))
	require.Contains(t, deref(got.Error), e.says)
	require.Len(t, got.Attempts, e.attempts)

	for _, a := range got.Attempts[:e.attempts-1] {
		require.Equal(t, rollout.InfraFailed, a.Outcome)
		require.Equal(t, string(fault.UpstreamFailed), a.ErrorKind, a.Error)
	}

	if e.outcome == rollout.InfraFailed {
		require.Nil(t, got.Reward)
		require.Equal(t, string(e.kind), got.Attempts[e.attempts-1].ErrorKind)

		return
	}

	require.InDelta(t, e.reward, *got.Reward, 0)
}

// recoveringEndpoint returns the URL of an endpoint that does not answer its first call and answers all later calls.
func recoveringEndpoint(t *testing.T) string {
	t.Helper()
	well, err := url.Parse(startModel(t, "turns: ["+reactWork+", {text: Done.}]").url)
	require.NoError(t, err)

	through := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: well.Scheme, Host: well.Host})

	var calls atomic.Int64

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// isProbe has read the body: a server detects a disconnect only then
		if !isProbe(r) && calls.Add(1) == 1 {
			<-r.Context().Done()
			return
		}

		through.ServeHTTP(w, r)
	}))

	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })

	return srv.URL + "/v1"
}
