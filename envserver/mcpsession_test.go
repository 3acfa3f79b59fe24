package envserver_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/testkit/jsclient"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// fakeEpisodes are episodes of the fake engine's rollouts. Their one tool, note, returns all texts that it
// was called with in the episode. With the text "wait" it blocks until its context ends.
type fakeEpisodes struct {
	envserver.Episodes
	fake  *fake
	mu    sync.Mutex
	notes map[string][]string

	scores []rollout.Score
}

func (f *fakeEpisodes) Ready(_ context.Context, id string) (episode.Status, error) {
	s := f.fake.stateOf(id)
	return episode.Status{SandboxID: id + ".1", Ended: string(s.Outcome)}, nil
}

func (f *fakeEpisodes) Status(_ context.Context, id string) (episode.Status, error) {
	return episode.Status{Steps: len(f.of(id)), LastAt: new(time.Unix(1_700_000_000, 0).UTC())}, nil
}

func (f *fakeEpisodes) Join(ctx context.Context, id, _ string) (episode.Status, error) {
	return f.Ready(ctx, id)
}

func (f *fakeEpisodes) Call(ctx context.Context, id string, c episode.Call) (episode.Answer, error) {
	if f.fake.stateOf(id).Outcome != "" {
		return episode.Answer{}, fault.New(fault.Conflict, "the episode has ended")
	}

	if strings.Contains(string(c.Arguments), `"wait"`) {
		f.note(id, "waiting")
		<-ctx.Done()

		return episode.Answer{}, fault.Wrap(fault.Unavailable, context.Cause(ctx), "call")
	}

	return episode.Answer{Result: episode.Result{Content: f.note(id, string(c.Arguments))}}, nil
}

func (f *fakeEpisodes) Submit(_ context.Context, id string, _ episode.Call) error {
	f.fake.finish(id)
	return nil
}

func (f *fakeEpisodes) Owner(ctx context.Context, id string) (string, error) {
	return f.fake.Owner(ctx, id)
}

func (f *fakeEpisodes) Score(_ context.Context, _ string, s rollout.Score) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.scores = append(f.scores, s)

	return nil
}

func (f *fakeEpisodes) note(id, text string) string {
	f.mu.Lock()
	defer f.mu.Unlock()

	f.notes[id] = append(f.notes[id], text)

	return strings.Join(f.notes[id], " ")
}

func (f *fakeEpisodes) of(id string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.notes[id]
}

// stateOf returns the state of an existing rollout.
func (f *fake) stateOf(id string) rollout.State {
	f.mu.Lock()
	defer f.mu.Unlock()

	return f.state(id)
}

// ids returns the ids of all rollouts.
func (f *fake) ids() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()

	for id := range f.specs {
		all = append(all, id)
	}

	return all
}

// withEpisodes mounts an environment of interactive episodes at /env/tools.
func withEpisodes(o *envserver.Options) {
	engine := o.Rollouts.(*fake)
	o.Agents = []string{rollout.AgentOpencode, rollout.AgentInteractive}
	o.Episodes = &fakeEpisodes{fake: engine, notes: map[string][]string{}}
	o.Environments = []envserver.Environment{{
		Name:     "tools",
		Tools:    oneTool("note"),
		Defaults: map[string]any{"endpoint": "vllm", "instruction": waits, "agent_timeout_s": 60},
	}}
}

// mcpClient is an MCP client at /env/tools/mcp that sends single requests.
type mcpClient struct {
	*rig

	// of its MCP session
	id   string
	more []string
}

func (r *rig) initialize(more ...string) mcpClient {
	r.t.Helper()
	c := mcpClient{rig: r, more: more}

	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

	status, headers, body := c.send("POST", hello)
	require.Equal(r.t, http.StatusOK, status, body)

	c.id = headers.Get("Mcp-Session-Id")
	require.NotEmpty(r.t, c.id)

	return c
}

func (c mcpClient) send(method, body string) (int, http.Header, string) {
	c.t.Helper()

	headers := append([]string{"Accept", "application/json, text/event-stream"}, c.more...)
	if c.id != "" {
		headers = append(headers, "Mcp-Session-Id", c.id)
	}

	return c.do(method, "/env/tools/mcp", body, headers...)
}

// list sends tools/list and returns the status.
func (c mcpClient) list() int {
	c.t.Helper()
	status, _, _ := c.send("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)

	return status
}

// note calls the tool note and returns its text.
func (c mcpClient) note(text string) string {
	c.t.Helper()
	status, _, body := c.send(
		"POST",
		fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"note","arguments":{"text":%q}}}`,
			text,
		),
	)
	require.Equal(c.t, http.StatusOK, status, body)

	return valueAt(c.t, object(c.t, body), "result", "content", 0, "text").(string)
}

// Each MCP client has its own episode under the session id that initialize returned, from its first call
// until it ends the session.
func TestMCPSessionIsAnEpisode(t *testing.T) {
	t.Parallel()
	r := start(t, withEpisodes)
	one, two := r.initialize(), r.initialize()
	require.Equal(t, http.StatusOK, one.list())
	require.Zero(t, r.fake.count(), "a list opens no episode")
	require.Equal(t, `{"text":"a"}`, one.note("a"))

	of := r.fake.ids()[0]

	require.Equal(t, `{"text":"b"}`, two.note("b"))
	require.Equal(t, `{"text":"a"} {"text":"c"}`, one.note("c"))
	require.Equal(t, 2, r.fake.count())
	_, _, state := r.do("GET", "/env/tools/state", "", "X-Session-Id", one.id)
	require.Equal(t, of, valueAt(t, object(t, state), "rollout_id"))

	status, _, body := one.send("DELETE", "")
	require.Equal(t, http.StatusNoContent, status, body)
	require.True(t, r.fake.aborted(of))

	for _, request := range []string{`"id":1,"method":"tools/call","params":{"name":"note","arguments":{}}`, `"id":2,"method":"ping"`, `"method":"notifications/initialized"`} {
		status, _, body = one.send("POST", `{"jsonrpc":"2.0",`+request+`}`)
		require.Equal(t, http.StatusNotFound, status, "%s: %s", request, body)
		require.Contains(t, body, "Unknown session_id")
	}

	status, _, _ = one.send("DELETE", "")
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, `{"text":"b"} {"text":"d"}`, two.note("d"))

	status, _, _ = r.do("DELETE", "/env/tools/mcp", "")
	require.Equal(t, http.StatusBadRequest, status, "whose session?")
}

// Concurrent calls in a new session share one episode.
func TestMCPCallsAtOnceShareAnEpisode(t *testing.T) {
	t.Parallel()
	r := start(t, withEpisodes)
	c := r.initialize()

	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() { c.note("x") })
	}

	calls.Wait()
	require.Equal(t, 1, r.fake.count())
}

// A session works on every replica and after a restart, but only for its owner. A session that one replica
// has ended has ended on all replicas.
func TestMCPSessionIsKept(t *testing.T) {
	t.Parallel()

	kept, engine := newKeeper(), newFake()
	episodes := &fakeEpisodes{fake: engine, notes: map[string][]string{}}
	replica := func() *rig {
		return shared(t, func(o *envserver.Options) { o.Rollouts = engine }, withEpisodes,
			func(o *envserver.Options) { o.Sessions, o.Episodes = kept, episodes })
	}
	a, b := replica(), replica()
	on := func(c mcpClient, r *rig) mcpClient { c.rig = r; return c }
	own := a.initialize("Authorization", alice)
	require.Equal(t, `{"text":"a"}`, own.note("a"))
	require.Equal(t, `{"text":"a"} {"text":"b"}`, on(own, b).note("b"))
	other := mcpClient{rig: b, id: own.id, more: []string{"Authorization", bob}}
	require.Equal(t, http.StatusNotFound, other.list())
	status, _, _ := other.send("DELETE", "")
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, `{"text":"a"} {"text":"b"} {"text":"c"}`, own.note("c"))
	status, _, _ = on(own, b).send("DELETE", "")
	require.Equal(t, http.StatusNoContent, status)

	for _, r := range []*rig{a, b, replica()} {
		require.Equal(t, http.StatusNotFound, on(own, r).list())
	}
}

// MCP sessions take slots as other sessions do, and free them when they end.
func TestMCPSessionsAreBounded(t *testing.T) {
	t.Parallel()
	r := start(t, withEpisodes, func(o *envserver.Options) { o.MaxSessions = 1 })
	first := r.initialize()
	status, _, body := r.do(
		"POST",
		"/env/tools/mcp",
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`,
		"Accept",
		"application/json, text/event-stream",
	)
	require.Equal(t, http.StatusServiceUnavailable, status, body)
	require.Contains(t, body, "capacity")

	status, _, _ = first.send("DELETE", "")
	require.Equal(t, http.StatusNoContent, status)
	r.initialize()
}

// The end of a session ends its calls, and the calls leave no record in the keeper.
func TestEndOfAnMCPSessionEndsItsCalls(t *testing.T) {
	t.Parallel()

	kept := newKeeper()

	var episodes *fakeEpisodes

	r := start(t, withEpisodes, func(o *envserver.Options) { o.Sessions, episodes = kept, o.Episodes.(*fakeEpisodes) })
	c := r.initialize()

	text := make(chan string, 1)
	go func() {
		defer close(text)

		text <- c.note("wait")
	}()

	r.eventually(
		func() bool { return r.fake.count() == 1 && len(episodes.of(r.fake.ids()[0])) == 1 },
		"the call is under way",
	)

	status, _, _ := c.send("DELETE", "")
	require.Equal(t, http.StatusNoContent, status)
	require.NotEmpty(t, <-text)
	require.Equal(t, http.StatusNotFound, c.list())
	kept.mu.Lock()
	defer kept.mu.Unlock()

	require.Empty(t, kept.m)
}

// A session that the request names outlives its MCP client, because clients return to a named session.
func TestNamedSessionOutlivesItsMCPClient(t *testing.T) {
	t.Parallel()
	r := start(t, withEpisodes)
	c := r.initialize("X-Session-Id", "mine")
	require.Equal(t, `{"text":"a"}`, c.note("a"))
	status, _, _ := c.send("DELETE", "")
	require.Equal(t, http.StatusNoContent, status)
	require.Equal(t, `{"text":"a"} {"text":"b"}`, r.initialize("X-Session-Id", "mine").note("b"))
}

// Outside of interactive episodes too, the end of an MCP session ends the calls in flight of that session's client.
func TestEndOfAnMCPClientEndsItsCalls(t *testing.T) {
	t.Parallel()
	r := start(t)
	connect := func() *mcp.ClientSession {
		c, err := mcp.NewClient(&mcp.Implementation{
			Name:    "c",
			Version: "1",
		}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.url + "/mcp"},
			&mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })

		return c
	}
	one, two := connect(), connect()
	ended := make(chan error, 2)

	for id, c := range map[string]*mcp.ClientSession{"one": one, "two": two} {
		go func() {
			args := task(id, waits, "on_disconnect", "abort")

			res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_rollout", Arguments: args})
			if err == nil && res.IsError {
				err = fmt.Errorf("%s: %v", id, res.Content)
			}

			ended <- err
		}()
	}

	r.started("one")
	r.started("two")
	status, _, _ := r.do("DELETE", "/mcp", "", "Mcp-Session-Id", one.ID())
	require.Equal(t, http.StatusNoContent, status)
	require.Error(t, <-ended)
	r.eventually(func() bool { return r.fake.aborted("one") }, "aborted")
	require.False(t, r.fake.aborted("two"))
	r.fake.finish("two")
	require.NoError(t, <-ended)
}

// Each of the published clients works in its own episode with default settings.
func TestMCPClientsInEpisodes(t *testing.T) {
	t.Parallel()

	python := map[string]pyclient.Requirements{"mcp_episode.py": pyclient.Newest(), "mcp2_episode.py": pyclient.MCP2()}
	for script, requirements := range python {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			pyclient.Interpreter(t, requirements).
				Run(t, filepath.Join("testdata", "py", script), start(t, withEpisodes).url)
		})
	}

	for pkg, script := range map[string]string{jsclient.MCP: "mcp_episode.mjs", jsclient.MCP2: "mcp2_episode.mjs"} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			jsclient.Run(t, pkg, filepath.Join("testdata", script), start(t, withEpisodes).url)
		})
	}
}

// A detailed list has the calls of an episode that runs.
func TestListHasTheCallsOfEpisodes(t *testing.T) {
	t.Parallel()
	r := start(t, withEpisodes)
	r.do("POST", "/env/tools/reset?session_id=s", `{"episode_id":"e"}`)
	r.do("POST", "/env/tools/step?session_id=s", `{"action":{"tool_name":"note","arguments":{"text":"a"}}}`)

	status, _, body := r.do("GET", "/rollouts?detail=true", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"tool_calls":1,"last_call_at":"2023-11-14T22:13:20Z"`)

	_, _, body = r.do("GET", "/rollouts", "")
	require.NotContains(t, body, "tool_calls")

	// one that has ended has none
	r.fake.finish(r.fake.ids()[0])

	_, _, body = r.do("GET", "/rollouts?detail=true", "")
	require.Contains(t, body, `"phase":"done"`)
	require.NotContains(t, body, "tool_calls")
}

// A bound of the environment holds beside those of a reset.
func TestResetMergesLimits(t *testing.T) {
	t.Parallel()
	r := start(t, withEpisodes, func(o *envserver.Options) {
		o.Environments[0].Defaults["limits"] = map[string]any{"verifier_s": 50}
	})

	status, _, body := r.do("POST", "/env/tools/reset?session_id=s", `{"limits":{"collect_s":20}}`)
	require.Equal(t, http.StatusOK, status, body)
	require.Len(t, r.fake.ids(), 1)

	spec, _ := r.fake.spec(r.fake.ids()[0])
	require.Equal(t, 50*time.Second, spec.Limits.Verifier)
	require.Equal(t, 20*time.Second, spec.Limits.Collect)
}
