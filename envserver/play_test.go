package envserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// playFake is an engine whose rollouts take tool calls.
type playFake struct {
	*fake

	// closed when rollouts may start; nil: rollouts start at once
	starting chan struct{}

	// closed when calls of "hang" may return
	late chan struct{}
	both sync.WaitGroup
}

// calls are the tool services of the hosts. A call of "hang" returns after its rollout has ended and late
// is closed. Calls of "one" and "two" return together.
type calls struct {
	envserver.Episodes
	*playFake
}

func (p *playFake) Start(ctx context.Context, s rollout.Spec) (rollout.State, error) {
	if p.starting != nil {
		<-p.starting
	}

	return p.fake.Start(ctx, s)
}

func (p calls) Ready(_ context.Context, id string) (episode.Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if outcome, over := p.ended[id]; over {
		return episode.Status{}, fault.New(fault.Conflict, "the rollout has ended: %s", outcome)
	}

	return episode.Status{}, nil
}

func (p calls) Join(ctx context.Context, id, _ string) (episode.Status, error) {
	return p.Ready(ctx, id)
}

func (p calls) Call(ctx context.Context, id string, c episode.Call) (episode.Answer, error) {
	switch c.Tool {
	case "hang":
		_, err := p.Wait(ctx, id)
		<-p.late

		if err == nil {
			_, err = p.Ready(ctx, id)
		}

		return episode.Answer{}, err
	case "one", "two":
		p.both.Done()
		p.both.Wait()
	}

	if len(c.ID) > 200 {
		return episode.Answer{}, fault.Field("id", "the id of a call must have 1 to 200 bytes")
	}

	_, err := p.Ready(ctx, id)

	return episode.Answer{Result: episode.Result{Content: "done"}}, err
}

func (p *playFake) running() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	return len(p.specs) - len(p.ended)
}

// playing starts a server with an environment of interactive episodes and returns a function that sends requests.
func playing(t *testing.T, p *playFake) func(method, path, body string) string {
	t.Helper()

	var tools []envserver.Tool

	for _, name := range []string{"one", "two", "hang", "look"} {
		one, err := oneTool(name)(t.Context())
		require.NoError(t, err)

		tools = append(tools, one...)
	}

	srv, err := envserver.New(envserver.Options{
		Sessions:    newKeeper(),
		Rollouts:    p,
		Episodes:    calls{playFake: p},
		Resolve:     catalog.New(func(string) string { return "" }, egress.Policy{}).Resolve,
		Seal:        strings.ToUpper,
		SessionIdle: -1,
		Agents:      []string{rollout.AgentOpencode, rollout.AgentInteractive},
		Environments: []envserver.Environment{{
			Name:  "tools",
			Tools: func(context.Context) ([]envserver.Tool, error) { return tools, nil },
		}},
	})
	require.NoError(t, err)

	return func(method, path, body string) string {
		if !strings.Contains(path, "?") {
			path += "?session_id=s"
		}

		w := httptest.NewRecorder()
		srv.ServeHTTP(w, httptest.NewRequest(method, "http://localhost/env/tools"+path, strings.NewReader(body)))

		return w.Body.String()
	}
}

const resetToWait = `{"instruction":"` + waits + `"}`

func toolStep(name string) string { return `{"action":{"tool_name":"` + name + `"}}` }

// A call in flight when a reset begins another episode ends with its own episode and does not affect the next one.
func TestLateCallDoesNotAffectTheNextEpisode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &playFake{fake: newFake(), late: make(chan struct{})}
		do := playing(t, p)
		do(http.MethodPost, "/reset", resetToWait)

		late := make(chan string, 1)
		go func() { late <- do(http.MethodPost, "/step", toolStep("hang")) }()

		synctest.Wait()

		begun := do(http.MethodPost, "/reset", resetToWait)

		close(p.late)
		require.Contains(t, <-late, "the rollout has ended")
		require.Contains(
			t,
			begun,
			valueAt(t, object(t, do(http.MethodGet, "/state", "")), "rollout_id"),
			"the session is in the second episode",
		)
		require.Contains(t, do(http.MethodPost, "/step", toolStep("look")), `"data":"done"`)
		require.Equal(t, 1, p.running())
	})
}

// After concurrent resets only the last episode is open. Each reset is answered with its own episode.
func TestResetsAtOnceLeaveOneEpisode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &playFake{fake: newFake(), starting: make(chan struct{})}
		do := playing(t, p)
		answers := make(chan string, 2)

		for _, id := range []string{"a", "b"} {
			go func() {
				out := do(
					http.MethodPost,
					"/reset",
					`{"instruction":"`+waits+`","episode_id":"`+id+`","task_id":"task-`+id+`"}`,
				)
				assert.Contains(t, out, `"episode_id":"`+id+`"`)
				assert.Contains(t, out, `"task_id":"task-`+id+`"`)

				answers <- out
			}()
		}

		synctest.Wait()
		close(p.starting)

		both := <-answers + <-answers
		require.Contains(t, both, valueAt(t, object(t, do(http.MethodGet, "/state", "")), "rollout_id"))
		require.Equal(t, 1, p.running())
	})
}

// Concurrent calls are both listed in tools_used.
func TestConcurrentCallsAreBothListed(t *testing.T) {
	t.Parallel()

	p := &playFake{fake: newFake()}
	p.both.Add(2)
	do := playing(t, p)
	do(http.MethodPost, "/reset", resetToWait)

	var both sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		both.Go(func() { do(http.MethodPost, "/step", toolStep(name)) })
	}

	both.Wait()
	require.ElementsMatch(t, []any{"one", "two"}, valueAt(t, object(t, do(http.MethodGet, "/state", "")), "tools_used"))
}

// A client whose episode another client has taken over does not end it when it closes its session or begins
// its own episode.
func TestReplacedClientDoesNotEndTheEpisode(t *testing.T) {
	t.Parallel()

	for name, end := range map[string][2]string{
		"close": {"/mcp", `{"jsonrpc":"2.0","id":1,"method":"openenv/session/close","params":{"session_id":"old"}}`},
		"reset": {"/reset?session_id=old", resetToWait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			do := playing(t, &playFake{fake: newFake()})
			do(http.MethodPost, "/reset?session_id=old", `{"instruction":"`+waits+`","episode_id":"ep"}`)

			const attach = `{"episode_id":"ep","attach":true}`
			do(http.MethodPost, "/reset", attach)
			require.NotContains(t, do(http.MethodPost, end[0], end[1]), "error")
			require.Contains(t, do(http.MethodPost, "/step", toolStep("look")), `"data":"done"`)
			require.Contains(t, do(http.MethodPost, "/reset?session_id=third", attach), `"rollout_id"`)
		})
	}
}

// A request_id that is not a string is refused, because it could not identify a repeated call, which would run again.
func TestARequestIDIsAString(t *testing.T) {
	t.Parallel()
	do := playing(t, &playFake{fake: newFake()})
	do(http.MethodPost, "/reset", resetToWait)
	out := do(http.MethodPost, "/step", `{"action":{"tool_name":"look","metadata":{"request_id":5}}}`)
	require.Contains(t, out, `"loc":["metadata","request_id"],"msg":"Input should be a valid string"`)
}

// A request_id may have the maximum length of its schema.
func TestALongRequestID(t *testing.T) {
	t.Parallel()
	do := playing(t, &playFake{fake: newFake()})
	do(http.MethodPost, "/reset", resetToWait)
	out := do(http.MethodPost, "/step", `{"action":{"tool_name":"look"},"request_id":"`+strings.Repeat("ü", 255)+`"}`)
	require.Contains(t, out, `"data":"done"`)
}
