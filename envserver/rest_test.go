package envserver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestRESTStartsAndFollowsARollout(t *testing.T) {
	t.Parallel()
	r := start(t)
	body, err := json.Marshal(task("r1", waits, "task_id", "t1", "test_script", "true"))
	require.NoError(t, err)

	status, _, out := r.do("POST", "/rollouts", string(body))
	require.Equal(t, http.StatusAccepted, status, out)
	status, _, out = r.do("GET", "/rollouts/r1", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "running_agent", object(t, out)["phase"])

	for _, path := range []string{"result", "trace", "routed_experts", "images", "logs/agent", "logs/proxy", "logs/verifier"} {
		status, _, out = r.do("GET", "/rollouts/r1/"+path, "")
		require.Equal(t, http.StatusConflict, status, path)
		require.Contains(t, out, "not done yet")
	}

	status, _, _ = r.do("GET", "/rollouts/r1/messages", "")
	require.Equal(t, http.StatusNotFound, status)
	r.fake.said("r1", "hello")
	_, _, out = r.do("GET", "/rollouts/r1/messages", "")
	require.Contains(t, out, "hello")
	_, _, out = r.do("POST", "/rollouts/r1/abort", `{"reason":"enough"}`)
	require.Equal(t, true, object(t, out)["aborted"])
	require.Equal(t, "enough", r.fake.aborts["r1"])
	_, _, out = r.do("POST", "/rollouts/r1/abort", "")
	require.Equal(t, false, object(t, out)["aborted"])
	_, _, out = r.do("GET", "/rollouts/r1/result", "")
	require.Equal(t, "aborted", object(t, out)["outcome"])

	for path, want := range map[string]string{
		"trace":          "trace of r1\n",
		"routed_experts": "routed_experts of r1\n",
		"images":         "images of r1\n",
		"logs/agent":     "agent of r1\n",
		"logs/verifier":  "verifier.stdout of r1\nverifier.stderr of r1\n",
		"logs/proxy":     "",
	} {
		status, _, out = r.do("GET", "/rollouts/r1/"+path, "")
		require.Equal(t, http.StatusOK, status, path)
		require.Equal(t, want, out)
	}
}

// The verifier's log has the output of the script, if there is one, and then the output of the commands, if
// there are any.
func TestTheVerifiersLog(t *testing.T) {
	t.Parallel()
	r := start(t)

	const script, commands = "verifier.stdout of %s\nverifier.stderr of %s\n", "$ a\nout of a\nerr of a\nexit status 0\n$ b\nout of b\nerr of b\nexit status 1\n"
	for id, c := range map[string]struct {
		asks []any
		want string
	}{
		"script":   {[]any{"test_script", "true"}, fmt.Sprintf(script, "script", "script")},
		"commands": {[]any{"verify", []string{"a", "b"}}, commands},
		"both":     {[]any{"verify", []string{"a", "b"}, "test_script", "true"}, fmt.Sprintf(script, "both", "both") + commands},
	} {
		body, err := json.Marshal(task(id, "x", c.asks...))
		require.NoError(t, err)
		r.do("POST", "/rollouts", string(body))
		status, headers, out := r.do("GET", "/rollouts/"+id+"/logs/verifier", "")
		require.Equal(t, http.StatusOK, status, out)
		require.Equal(t, "text/plain; charset=utf-8", headers.Get("Content-Type"))
		require.Equal(t, c.want, out)
	}

	r.begin("none")
	status, _, out := r.do("GET", "/rollouts/none/logs/verifier", "")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, out, "rollout none left no verifier log")
}

func TestRESTRefusals(t *testing.T) {
	t.Parallel()

	r := start(t)
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/rollouts/none", "", 404}, {"GET", "/rollouts/none/result", "", 404}, {"GET", "/rollouts/none/events", "", 404},
		{"POST", "/rollouts/none/abort", "", 404}, {"GET", "/rollouts?limit=0", "", 422}, {"GET", "/rollouts?limit=x", "", 422}, {"GET", "/rollouts?detail=x", "", 422},
		{"POST", "/rollouts", "[", 422}, {"POST", "/rollouts", "{}", 422}, {"DELETE", "/rollouts", "", 405}, {"DELETE", "/rollouts/r/result", "", 405},
		{"GET", "/rollouts/none/logs/other", "", 404},
	} {
		status, headers, out := r.do(c.method, c.path, c.body)
		require.Equal(t, c.want, status, "%s %s: %s", c.method, c.path, out)
		require.Contains(t, object(t, out), "detail")

		if c.want == 405 && c.path == "/rollouts" {
			require.Equal(t, "POST, GET", headers.Get("Allow"))
		}
	}
}

func TestRESTList(t *testing.T) {
	t.Parallel()

	client := envserver.PlainToken("token-of-a-client")
	client.Scope = envserver.ScopeClient
	r := start(t, func(o *envserver.Options) {
		o.Tokens = []envserver.Token{client, envserver.PlainToken("token-of-operator")}
	})

	for id, group := range map[string]string{"a": "g", "b": "g", "c": "other"} {
		body, err := json.Marshal(task(id, "x", "task_id", "t", "group_id", group))
		require.NoError(t, err)

		status, _, _ := r.do("POST", "/rollouts", string(body), "Authorization", "Bearer token-of-a-client")
		require.Equal(t, http.StatusAccepted, status)
	}

	_, _, out := r.do("GET", "/rollouts?task_id=t&status=done&limit=2", "", "Authorization", "Bearer token-of-operator")
	require.Len(t, object(t, out)["rollouts"], 2)
	_, _, out = r.do(
		"GET",
		"/rollouts?limit=2&cursor="+object(t, out)["next"].(string),
		"",
		"Authorization",
		"Bearer token-of-operator",
	)
	require.Equal(t, "c", valueAt(t, object(t, out), "rollouts", 0, "rollout_id"))
	require.NotContains(t, object(t, out), "next")

	for query, want := range map[string]int{
		"group_id=g":        2,
		"group_id=none":     0,
		"task_id=t":         3,
		"task_id=none":      0,
		"outcome=completed": 3,
		"outcome=aborted":   0,
		"status=running":    0,
		"model=none":        0,
		"min_reward=2":      0,
		"max_reward=-1.5":   0,
		"min_reward=-1":     0,
		"q=missing":         0,

		"since=2100-01-01T00:00:00Z": 0,
		"until=2100-01-01T00:00:00Z": 3,
	} {
		_, _, out = r.do("GET", "/rollouts?"+query, "", "Authorization", "Bearer token-of-operator")
		require.Len(t, object(t, out)["rollouts"], want, query)
	}
}

// A query that cannot be meant is refused with the valid values. An empty or unfiltered list would look
// like the right answer.
func TestRESTListRefuses(t *testing.T) {
	t.Parallel()

	r := start(t)
	for query, want := range map[string]string{
		"outcome=foo":            "outcome: must be one of completed, agent_failed, agent_timeout, budget_exhausted, aborted, setup_failed, verifier_failed, infra_failed; got \"foo\"",
		"status=foo":             "status: must be running or done, got \"foo\"",
		"limit=-1":               "limit: must be a whole number from 1 to 1000, got \"-1\"",
		"limit=1001":             "limit: must be a whole number",
		"limit=1e2":              "limit: must be a whole number",
		"task=t":                 "task: there is no such parameter: must be one of status, q, task_id, group_id, model, agent, endpoint, id_prefix, producer_id, ids, min_reward, max_reward, min_turns, max_turns, min_duration_s, max_duration_s, since, until, ended_since, model_version, outcome, sort, limit, cursor",
		"sort=owner":             "sort: must be one of rollout_id",
		"min_turns=x":            `min_turns: must be a whole number such as 10, got "x"`,
		"max_duration_s=-1":      "max_duration_s: must be from 0 to 1e+09 seconds, got -1",
		"ids=a%20b":              "ids: must be at most 100 ids with commas",
		"min_reward=nan":         "min_reward: must be a number such as 0.5, got \"nan\"",
		"max_reward=a":           "max_reward: must be a number",
		"since=yesterday":        "since: must be a time such as 2026-01-31T12:00:00Z, got \"yesterday\"",
		"Status=done":            "Status: there is no such parameter",
		"task_id=a&task_id=b":    "task_id: must be given once, got 2 times",
		"task_id=50%off":         `query: invalid URL escape "%of"`,
		"status=running;limit=3": "query: invalid semicolon separator in query",
		"task_id=a%FF":           `task_id: must be UTF-8, got "a\xff"`,
		"group_id=%FF":           `group_id: must be UTF-8`,
	} {
		status, _, out := r.do("GET", "/rollouts?"+query, "")
		require.Equal(t, http.StatusUnprocessableEntity, status, query)
		require.Contains(t, object(t, out)["detail"], want)
	}

	for _, path := range []string{"/rollouts/r", "/rollouts/r/events", "/rollouts/r/messages", "/groups/g"} {
		status, _, out := r.do("GET", path+"?after=1", "")
		require.Equal(t, http.StatusUnprocessableEntity, status, path)
		require.Contains(t, object(t, out)["detail"], "after: there is no such parameter: this route has none")
	}

	for query, want := range map[string]string{
		"fromat=npz":              "fromat: there is no such parameter: must be one of format",
		"format=csv":              "format: must be jsonl, npz or atif",
		"format=jsonl&format=npz": "format: must be given once",
		"format=npz;":             "query: invalid semicolon",
	} {
		status, _, out := r.do("GET", "/rollouts/r/trace?"+query, "")
		require.Equal(t, http.StatusUnprocessableEntity, status, query)
		require.Contains(t, object(t, out)["detail"], want)
	}
}

// A trace is read in parts: pages of turns, ranges of texts, windows of tokens.
func TestTraceInParts(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.record(mendingSession())
	r.begin("r")

	status, _, out := r.do("GET", "/rollouts/r/turns?after=1&limit=2", "")
	require.Equal(t, http.StatusOK, status, out)
	require.Len(t, object(t, out)["turns"], 2)
	require.EqualValues(t, 3, object(t, out)["next"])

	status, _, out = r.do("GET", "/rollouts/r/turns/1/parts/1?offset=4", "")
	require.Equal(t, http.StatusOK, status, out)
	require.True(t, strings.HasPrefix(object(t, out)["text"].(string), "CSV parser"), out)

	status, _, out = r.do("GET", "/rollouts/r/tokens?sequence=1&start=3&limit=5", "")
	require.Equal(t, http.StatusOK, status, out)
	require.Len(t, object(t, out)["tokens"], 5)
	require.Len(t, object(t, out)["sequences"], 2)

	status, _, out = r.do("GET", "/rollouts/r/turns/1/alternatives?start=2", "")
	require.Equal(t, http.StatusOK, status, out)
	require.Len(t, valueAt(t, object(t, out), "positions", 0), 3)

	status, _, out = r.do("GET", "/rollouts/r/result?part=head", "")
	require.Equal(t, http.StatusOK, status, out)
	require.Empty(t, object(t, out)["workdir_files"])

	for path, want := range map[string]string{
		"turns?limit=201":               "limit: must be a whole number from 1 to 200",
		"turns?after=-1":                "after: must be a whole number from 0",
		"turns/1/alternatives?start=-1": "start: must be a whole number from 0",
		"turns/1/parts/0?offset=x":      "offset: must be a whole number from 0",
		"tokens?limit=0":                "limit: must be a whole number from 1 to 10000",
		"tokens?subagents=all":          "subagents: must be drop or separate",
		"tokens?summaries=all":          "summaries: must be drop or train",
		"result?part=tail":              "part: must be all or head",
	} {
		status, _, out := r.do("GET", "/rollouts/r/"+path, "")
		require.Equal(t, http.StatusUnprocessableEntity, status, path)
		require.Contains(t, object(t, out)["detail"], want)
	}

	for _, path := range []string{"turns/x/parts/0", "turns/0/parts/0", "turns/1/parts/99", "turns/0/alternatives", "turns/99/alternatives", "tokens?sequence=2"} {
		status, _, out := r.do("GET", "/rollouts/r/"+path, "")
		require.Equal(t, http.StatusNotFound, status, "%s: %s", path, out)
	}
}

// A broken stream continues after the last event that the client received, and ends with the rollout.
func TestRESTEvents(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.fake.phases = []rollout.PhaseTiming{{
		Phase:   rollout.PhaseCreating,
		Attempt: 1,
	}, {Phase: rollout.PhaseAgent, Attempt: 1}}
	body, err := json.Marshal(task("r", waits))
	require.NoError(t, err)
	r.do("POST", "/rollouts", string(body))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/rollouts/r/events", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))

	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{": events follow", "", "id: 1000001", "event: phase"} {
		require.True(t, lines.Scan())
		require.Equal(t, want, lines.Text())
	}

	r.fake.finish("r")
	_, _, rest := r.do("GET", "/rollouts/r/events", "", "Last-Event-ID", "1000002")
	require.Regexp(
		t,
		`^: events follow\n\nid: 1000010\nevent: text\ndata: \{.*two\\nlines.*\}\n\nid: 1000011\nevent: done\ndata: \{.*"outcome":"completed".*\}\n\n$`,
		rest,
	)
}

// HEAD is answered wherever GET is, with the same status and no body. A stream of events ends at once.
func TestHead(t *testing.T) {
	t.Parallel()
	r := start(t)
	body, err := json.Marshal(task("r", waits))
	require.NoError(t, err)
	r.do("POST", "/rollouts", string(body))

	for path, want := range map[string]int{
		"/health":               200,
		"/metadata":             200,
		"/schema":               200,
		"/state":                200,
		"/openapi.json":         200,
		"/rollouts":             200,
		"/rollouts/r":           200,
		"/rollouts/r/events":    200,
		"/rollouts/r/result":    409,
		"/rollouts/none":        404,
		"/rollouts/none/events": 404,
		"/mcp":                  405,
		"/reset":                405,
	} {
		status, _, out := r.do("HEAD", path, "")
		require.Equal(t, want, status, path)
		require.Empty(t, out, path)
	}
}

// The tool returns the same events in pages. It waits if there is none, and marks the page after which no
// more events follow.
func TestSubscribeEvents(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.fake.phases = []rollout.PhaseTiming{{
		Phase:   rollout.PhaseCreating,
		Attempt: 1,
	}, {Phase: rollout.PhaseAgent, Attempt: 1}}
	c := r.dial("/ws")
	c.ask(call("start_rollout", task("r", waits)))

	next := 0.0
	for _, n := range []float64{1000001, 1000002} {
		got := answer(t, c.ask(call("subscribe_events", map[string]any{"rollout_id": "r", "cursor": next})))
		next = got["next"].(float64)
		require.InDelta(t, n, next, 0)
		require.Len(t, got["events"], 1)
		require.Equal(t, false, got["done"])
	}

	got := answer(t, c.ask(call("subscribe_events", map[string]any{"rollout_id": "r", "cursor": next, "wait_s": 0.01})))
	require.Empty(t, got["events"])
	require.InDelta(t, next, got["next"], 0)
	r.fake.finish("r")

	for _, kind := range []string{"text", "done"} {
		got = answer(t, c.ask(call("subscribe_events", map[string]any{"rollout_id": "r", "cursor": next})))
		next = got["next"].(float64)
		require.Equal(t, kind, got["events"].([]any)[0].(map[string]any)["kind"])
	}

	require.Equal(t, true, got["done"])
	got = answer(t, c.ask(call("subscribe_events", map[string]any{"rollout_id": "r", "cursor": next})))
	require.Empty(t, got["events"])
	require.Equal(t, true, got["done"])
}

// An event that is not in the log is returned together with the next logged event. Alone it would be
// returned for every request, since it does not advance the cursor.
func TestSubscribeEventsThatAreNotInTheLog(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.fake.phases, r.fake.unlogged = []rollout.PhaseTiming{{Phase: rollout.PhaseCreating, Attempt: 1}}, true
	c := r.dial("/ws")
	c.ask(call("start_rollout", task("r", waits)))
	got := answer(t, c.ask(call("subscribe_events", map[string]any{"rollout_id": "r"})))
	require.Len(t, got["events"], 2)
	require.InDelta(t, 1000001, got["next"], 0)
	got = answer(t, c.ask(call("subscribe_events", map[string]any{
		"rollout_id": "r",
		"cursor":     got["next"],
		"wait_s":     0.01,
	})))
	require.Len(t, got["events"], 1)
	require.InDelta(t, 1000001, got["next"], 0)
}
