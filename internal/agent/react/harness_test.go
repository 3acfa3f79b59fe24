package react_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/react"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/scripted"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/tool"
)

const patience = 5 * time.Minute

// testGateway is a gateway with one route, a scripted model behind it, and a sandbox that records only launches.
type testGateway struct {
	client *gatewayapi.Client
	box    *fakeSandbox
	tools  *tools

	// the endpoint's handler; the scripted model unless a test changes it
	model http.Handler
	sent  *sentLog

	// of the endpoint
	url string
}

func newTestGateway(t testing.TB, script string) *testGateway {
	t.Helper()

	scripts, err := scripted.Load(strings.NewReader(script))
	require.NoError(t, err)

	w := &testGateway{box: &fakeSandbox{marks: map[string]wire.Status{}}, tools: &tools{}, sent: &sentLog{}}
	w.model = scripted.New(scripted.Options{Scripts: scripts, Log: w.sent})
	endpoint := httptest.NewServer(
		http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.model.ServeHTTP(rw, r) }),
	)
	t.Cleanup(endpoint.Close)
	w.url = endpoint.URL + "/v1"
	w.client = newGateway(t, w.url)

	return w
}

// newGateway starts a gateway with the route r1.1 to an endpoint.
func newGateway(t testing.TB, endpoint string) *gatewayapi.Client {
	t.Helper()
	dir := t.TempDir()
	key, err := seal.LoadOrCreate(filepath.Join(dir, "key"))
	require.NoError(t, err)
	policy, err := egress.Parse([]string{"127.0.0.0/8"})
	require.NoError(t, err)
	srv, err := gateway.New(gateway.Options{
		Dir:     filepath.Join(dir, "gateway"),
		Key:     key,
		Dialer:  noSandbox{},
		Egress:  policy,
		Backoff: time.Millisecond,
	})
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(context.Background())

	over := make(chan error, 1)
	go func() { over <- srv.Run(ctx) }()

	api := gatewaytest.NewServer(admin.New(srv, admin.Options{Key: key}).Handler())

	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-over)
		api.Close()
	})

	client := gatewayapi.NewClient(api.URL, key)
	require.NoError(t, client.Open(t.Context(), gatewayapi.Route{
		ID: "r1.1", RolloutID: "r1", Attempt: 1, Capture: true, Limits: rollout.Limits{Call: patience},
		Model: rollout.Model{BaseURL: endpoint, Name: "m", Logprobs: true, TokenIDs: true},
	}))

	return client
}

type noSandbox struct{}

func (noSandbox) ServeModel(context.Context, string, http.Handler, func()) error {
	return errors.New("no sandbox")
}

func (w *testGateway) env() agent.Env {
	return agent.Env{Sandbox: w.box, Model: w.client.Model("r1.1"), Tools: w.tools}
}

func job(config *rollout.React) agent.Job {
	return agent.Job{Instruction: "go", Model: rollout.Model{TokenIDs: true}, React: config}
}

// finish runs the job to its end in a run of its own, as a worker does.
func (w *testGateway) finish(t *testing.T, j agent.Job) (agent.Status, rollout.Transcript) {
	t.Helper()
	r, err := react.Agent{}.Open(t.Context(), w.env(), j)
	require.NoError(t, err)

	defer r.Close()

	st := await(t, r)
	said, err := r.Transcript(t.Context())
	require.NoError(t, err)

	return st, said
}

func await(t *testing.T, r agent.Run) agent.Status {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	for {
		st, err := r.Next(ctx)
		require.NoError(t, err)

		if st.Done {
			return st
		}
	}
}

func (w *testGateway) turns(t *testing.T) []rollout.Turn {
	t.Helper()
	body, err := w.client.Trace(t.Context(), "r1.1")
	require.NoError(t, err)

	defer body.Close()

	var turns []rollout.Turn

	for d := json.NewDecoder(body); ; {
		var turn rollout.Turn

		err := d.Decode(&turn)
		if errors.Is(err, io.EOF) {
			return turns
		}

		require.NoError(t, err)

		turns = append(turns, turn)
	}
}

// requireOneSequence checks that each prompt continues all earlier prompts and replies.
func requireOneSequence(t *testing.T, turns []rollout.Turn) {
	t.Helper()

	ids := []int32{}

	for _, turn := range turns {
		require.Empty(t, turn.Broken)
		require.True(t, turn.Train)
		require.Nil(t, turn.PrefixBreak)
		require.GreaterOrEqual(t, len(turn.PromptTokenIDs), len(ids))
		require.Equal(t, ids, turn.PromptTokenIDs[:len(ids)], "turn %d", turn.Turn)
		ids = append(append([]int32{}, turn.PromptTokenIDs...), turn.CompletionTokenIDs...)
	}
}

// fakeSandbox records launches.
type fakeSandbox struct {
	agent.Sandbox
	mu    sync.Mutex
	marks map[string]wire.Status

	// calls of Status
	looks int
}

func (b *fakeSandbox) statusCalls() int {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.looks
}

// loseLaunches deletes all records of launches.
func (b *fakeSandbox) loseLaunches() {
	b.mu.Lock()
	defer b.mu.Unlock()

	clear(b.marks)
}

func (b *fakeSandbox) Start(_ context.Context, name string, _ wire.Process) (wire.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.marks[name] = wire.Status{Name: name}

	return b.marks[name], nil
}

func (b *fakeSandbox) Status(_ context.Context, name string) (wire.Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.looks++

	st, ok := b.marks[name]
	if !ok {
		return st, fault.New(fault.NotFound, "no process %q", name)
	}

	return st, nil
}

func (b *fakeSandbox) Tail(context.Context, wire.Status, string, int) ([]byte, error) {
	return nil, nil
}

// tools counts executions. A call repeated under its id returns the stored result and runs nothing, as in a sandbox.
type tools struct {
	mu      sync.Mutex
	results map[string]tool.Result

	// arguments, in order
	runs []string

	// nil: the arguments are the output
	call func(tool.Call) (tool.Result, error)

	// runs before each call, repeated ones included
	before func(ctx context.Context, c tool.Call)
}

func (s *tools) Definitions() []tool.Definition { return definitions() }

func (s *tools) Call(ctx context.Context, c tool.Call) (tool.Result, error) {
	if s.before != nil {
		s.before(ctx, c)
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if r, ok := s.results[c.ID]; ok {
		return r, nil
	}

	r := tool.Result{Content: string(c.Arguments)}

	if s.call != nil {
		var err error
		if r, err = s.call(c); err != nil {
			return r, err
		}
	}

	if s.results == nil {
		s.results = map[string]tool.Result{}
	}

	s.results[c.ID], s.runs = r, append(s.runs, string(c.Arguments))

	return r, nil
}

// sentLog counts the replies of the model.
type sentLog struct {
	mu    sync.Mutex
	lines int
}

func (l *sentLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.lines++

	return len(p), nil
}

func (l *sentLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.lines
}
