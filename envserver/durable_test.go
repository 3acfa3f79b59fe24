package envserver_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// memoryKeeper keeps sessions in memory, for several servers.
type memoryKeeper struct {
	mu     sync.Mutex
	m      map[string][]byte
	writes int
}

func newKeeper() *memoryKeeper { return &memoryKeeper{m: map[string][]byte{}} }

func (k *memoryKeeper) Load(_ context.Context, key string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()

	data, ok := k.m[key]
	if !ok {
		return nil, fault.New(fault.NotFound, "nothing under %s", key)
	}

	return data, nil
}

func (k *memoryKeeper) Save(_ context.Context, key string, data []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()

	k.m[key] = data
	k.writes++

	return nil
}

func (k *memoryKeeper) Delete(_ context.Context, key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()

	delete(k.m, key)

	return nil
}

func (k *memoryKeeper) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()

	return k.writes
}

// replicas starts two servers with one engine and one keeper. A test sets MaxSessions to see which slots are taken.
func replicas(t *testing.T, change ...func(*envserver.Options)) (a, b *rig, kept *memoryKeeper) {
	t.Helper()

	kept = newKeeper()
	engine := newFake()

	with := append(change, func(o *envserver.Options) { o.Sessions, o.Rollouts = kept, engine })
	a, b = start(t, with...), start(t, with...)
	a.fake, b.fake = engine, engine

	return a, b, kept
}

func TestReattachAfterADrop(t *testing.T) {
	t.Parallel()

	for name, elsewhere := range map[string]bool{"same replica": false, "another replica": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			a, b, _ := replicas(t)
			if !elsewhere {
				b = a
			}

			c := a.dial("/ws")
			c.ask(`{"type":"reset","data":{"episode_id":"ep"}}`)
			answer(t, c.ask(call("run_rollout", task("r1", "x", "task_id", "t"))))
			answer(t, c.ask(call("start_rollout", task("r2", waits))))
			want := c.ask(`{"type":"state"}`)
			require.Contains(t, want, `"rollouts":["r1","r2"]`)
			require.Contains(t, want, `"step_count":2`)
			// no close frame
			require.NoError(t, c.NetConn().Close())

			again := b.dial("/ws")
			require.Contains(
				t,
				again.ask(`{"type":"reset","data":{"episode_id":"ep","attach":true}}`),
				`"observation":{"metadata":{}}`,
			)
			require.JSONEq(t, want, again.ask(`{"type":"state"}`))
			a.fake.finish("r2")
			require.Equal(
				t,
				"r2",
				answer(t, again.ask(call("finalize_rollout", map[string]any{"rollout_id": "r2"})))["rollout_id"],
			)
			require.Contains(t, again.ask(`{"type":"state"}`), `"rollouts_completed":2`)
		})
	}
}

// Each client that attaches continues from the state of the client before it, even while earlier
// connections are still open.
func TestAttachContinuesFromTheLatestState(t *testing.T) {
	t.Parallel()

	for name, elsewhere := range map[string]bool{"same replica": false, "another replica": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			a, b, _ := replicas(t)
			if !elsewhere {
				b = a
			}

			attach := func(r *rig) socket {
				c := r.dial("/ws")
				c.ask(`{"type":"reset","data":{"episode_id":"ep","attach":true}}`)

				return c
			}
			step := func(c socket, id string) { answer(t, c.ask(call("run_rollout", task(id, "x")))) }
			first := a.dial("/ws")
			first.ask(`{"type":"reset","data":{"episode_id":"ep"}}`)
			step(first, "r1")

			second := attach(b)
			step(second, "r2")
			require.NoError(t, second.NetConn().Close())

			third := attach(a)
			require.Contains(t, third.ask(`{"type":"state"}`), `"step_count":2`)
			step(third, "r3")
			first.ask(`{"type":"reset","data":{"episode_id":"ep","attach":true}}`)
			require.Contains(t, first.ask(`{"type":"state"}`), `"rollouts":["r1","r2","r3"]`)
			step(first, "r4")
			require.Contains(t, attach(b).ask(`{"type":"state"}`), `"step_count":4`)
		})
	}
}

func TestAttachToNoEpisode(t *testing.T) {
	t.Parallel()
	a, _, _ := replicas(t)
	c := a.dial("/ws")
	require.Contains(
		t,
		c.ask(`{"type":"reset","data":{"episode_id":"none","attach":true}}`),
		"Unknown episode_id: none",
	)
	require.Contains(t, c.ask(`{"type":"state"}`), `"state"`, "the session lives")
}

// A reset whose attach is no truth value is refused: it would end the episode that the client wants to continue.
func TestAttachIsATruthValue(t *testing.T) {
	t.Parallel()
	a, _, _ := replicas(t)
	c := a.dial("/ws")
	c.ask(`{"type":"reset","data":{"episode_id":"ep"}}`)
	c.ask(`{"type":"step","data":{"type":"list_tools"}}`)
	refused := c.ask(`{"type":"reset","data":{"episode_id":"ep","attach":"true"}}`)
	require.Contains(t, refused, "VALIDATION_ERROR")
	require.Contains(t, refused, "Input should be a valid boolean")
	require.Contains(t, c.ask(`{"type":"state"}`), `"episode_id":"ep","step_count":1`)

	status, _, out := a.do("POST", "/reset", `{"episode_id":"ep","session_id":"s","attach":1}`)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, out, "Input should be a valid boolean")
}

func TestSessionIDIsFoundAgain(t *testing.T) {
	t.Parallel()
	a, b, _ := replicas(t, func(o *envserver.Options) { o.MaxSessions = 1 })
	c := a.dial("/ws")
	own := valueAt(t, object(t, c.ask(`{"type":"mcp","data":{"jsonrpc":"2.0","method":"openenv/session/create","id":1}}`)), "data", "result", "session_id").(string)
	c.ask(`{"type":"reset","data":{"episode_id":"ep"}}`)
	c.ask(`{"type":"step","data":{"type":"list_tools"}}`)
	c.send(`{"type":"close"}`)
	require.Equal(t, 1000, c.closed())

	again := b.dial("/ws?session_id=" + own)
	require.Contains(t, again.ask(`{"type":"state"}`), `"episode_id":"ep","step_count":1`)
	again.send(`{"type":"close"}`)
	require.Equal(t, 1000, again.closed())
	b.eventually(func() bool { return b.rpc("openenv/session/create", nil)["result"] != nil }, "its slot is free again")
}

// HTTP requests with a session id reach the same session on every replica.
func TestStickyHTTP(t *testing.T) {
	t.Parallel()
	a, b, _ := replicas(t)

	const id = "my-trainer-7"

	status, _, _ := a.do("GET", "/state", "", "X-Session-Id", id)
	require.Equal(t, http.StatusNotFound, status)
	status, _, out := a.do("POST", "/reset", `{"episode_id":"ep","session_id":"`+id+`"}`)
	require.Equal(t, http.StatusOK, status, out)

	step := `{"action":{"type":"list_tools"}}`
	for i, r := range []*rig{a, b, a} {
		status, _, out = r.do("POST", "/step", step, "X-Session-Id", id)
		require.Equal(t, http.StatusOK, status, out)
		_, _, out = r.do("GET", "/state?session_id="+id, "")
		require.EqualValues(t, i+1, valueAt(t, object(t, out), "step_count"), "after step %d", i+1)
	}

	_, _, out = b.do("GET", "/state", "")
	require.EqualValues(t, 0, valueAt(t, object(t, out), "step_count"), "who sends nothing gets a fresh environment")

	closed := b.rpc("openenv/session/close", map[string]any{"session_id": id})
	require.Equal(t, true, valueAt(t, closed, "result", "closed"))

	status, _, _ = a.do("GET", "/state", "", "X-Session-Id", id)
	require.Equal(t, http.StatusNotFound, status, "closed everywhere")
}

func TestAttachOverHTTPNeedsASession(t *testing.T) {
	t.Parallel()
	a, _, _ := replicas(t)
	status, _, out := a.do("POST", "/reset", `{"episode_id":"ep","attach":true}`)
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, out, "session_id")

	status, _, _ = a.do("POST", "/reset", `{"episode_id":"ep","attach":true,"session_id":"s"}`)
	require.Equal(t, http.StatusNotFound, status)
}

func TestSessionSurvivesARestart(t *testing.T) {
	t.Parallel()
	a, b, _ := replicas(t)
	c := a.dial("/ws")
	c.ask(`{"type":"reset","data":{"episode_id":"ep"}}`)
	c.send(call("run_rollout", task("r", waits, "on_disconnect", "abort")))
	a.started("r")
	require.NoError(t, a.srv.Shutdown(t.Context()))

	again := b.dial("/ws")
	again.ask(`{"type":"reset","data":{"episode_id":"ep","attach":true}}`)
	require.False(t, a.fake.aborted("r"), "a server that stops is not a client that leaves")
	require.NoError(t, again.Close())
	b.eventually(func() bool { return b.fake.aborted("r") }, "the promise to abort went on with the session")
}

// The end of a connection that the client has left for another replica does not end its rollouts.
func TestRolloutsGoOnWithTheirClient(t *testing.T) {
	t.Parallel()

	for name, reconnect := range map[string]func(b *rig, id string) socket{
		"session": func(b *rig, id string) socket { return b.dial("/ws?session_id=" + id) },
		"episode": func(b *rig, _ string) socket {
			c := b.dial("/ws")
			c.ask(`{"type":"reset","data":{"episode_id":"ep","attach":true}}`)

			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			a, b, _ := replicas(t, func(o *envserver.Options) { o.MaxSessions = 1 })
			old := a.dial("/ws")
			id := valueAt(t, object(t, old.ask(`{"type":"mcp","data":{"jsonrpc":"2.0","method":"openenv/session/create","id":1}}`)), "data", "result", "session_id").(string)
			old.ask(`{"type":"reset","data":{"episode_id":"ep"}}`)
			answer(t, old.ask(call("start_rollout", task("r", waits, "on_disconnect", "abort"))))
			old.ask(`{"type":"step","data":{"type":"list_tools"}}`)

			next := reconnect(b, id)
			require.Contains(t, next.ask(`{"type":"state"}`), `"rollouts":["r"]`)

			// no close frame
			require.NoError(t, old.NetConn().Close())
			a.eventually(func() bool { return a.rpc("openenv/session/create", nil)["result"] != nil }, "its slot is free")
			require.NoError(t, a.srv.Shutdown(t.Context()))
			require.False(t, a.fake.aborted("r"))

			require.NoError(t, next.Close())
			b.eventually(func() bool { return b.fake.aborted("r") }, "its last connection has ended")
		})
	}
}

// A client cannot use the session, episode or id of another client.
func TestSessionsOfOthers(t *testing.T) {
	t.Parallel()

	mine, theirs := envserver.PlainToken("token-of-mine"), envserver.PlainToken("token-of-theirs")
	a, b, _ := replicas(t, func(o *envserver.Options) { o.Tokens = []envserver.Token{mine, theirs} })

	const id = "shared-name"

	auth := []string{"Authorization", "Bearer token-of-mine"}
	status, _, _ := a.do("POST", "/reset", `{"episode_id":"ep","session_id":"`+id+`"}`, auth...)
	require.Equal(t, http.StatusOK, status)

	for _, r := range []*rig{a, b} {
		status, _, _ = r.do("GET", "/state?session_id="+id, "", auth...)
		require.Equal(t, http.StatusOK, status)
		status, _, _ = r.do("GET", "/state?session_id="+id, "", "Authorization", "Bearer token-of-theirs")
		require.Equal(t, http.StatusNotFound, status)

		_, _, out := r.do(
			"POST",
			"/mcp",
			`{"jsonrpc":"2.0","id":1,"method":"openenv/session/close","params":{"session_id":"`+id+`"}}`,
			"Authorization",
			"Bearer token-of-theirs",
		)
		require.Contains(t, out, "Unknown session_id")

		c := r.dial("/ws", "Authorization", "Bearer token-of-theirs")
		require.Contains(t, c.ask(`{"type":"reset","data":{"episode_id":"ep","attach":true}}`), "Unknown episode_id")
		c = r.dial("/ws?session_id="+id, "Authorization", "Bearer token-of-theirs")
		require.Contains(t, c.read(), "Unknown session_id")
	}

	_, _, out := a.do(
		"POST",
		"/reset",
		`{"episode_id":"other","session_id":"`+id+`"}`,
		"Authorization",
		"Bearer token-of-theirs",
	)
	require.Contains(t, out, `"observation"`, "an id is in use only for its owner")

	_, _, out = a.do("GET", "/state?session_id="+id, "", auth...)
	require.Equal(t, "ep", valueAt(t, object(t, out), "episode_id"))
}

func TestUnchangedSessionsAreNotWritten(t *testing.T) {
	t.Parallel()
	a, _, kept := replicas(t)

	c := a.dial("/ws")
	for range 3 {
		c.ask(`{"type":"state"}`)
	}

	c.send(`{"type":"close"}`)
	require.Equal(t, 1000, c.closed())
	require.Zero(t, kept.count())

	c = a.dial("/ws")
	c.ask(`{"type":"reset"}`)

	before := kept.count()

	for range 10 {
		c.ask(`{"type":"step","data":{"type":"list_tools"}}`)
	}

	require.Equal(t, before, kept.count(), "steps that start nothing are kept when the connection ends")
}

// The body of a request must arrive within a time limit, even if it arrives byte by byte.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.BodyTimeout = 20 * time.Millisecond })

	never, hold := io.Pipe()
	defer hold.Close()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/step", never)
	require.NoError(t, err)

	req.ContentLength = 10
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
}
