package opencode_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// world is a real OpenCode in a real sandbox, talking to a scripted model through the model channel.
type world struct {
	*sandbox.Sandbox
	backend *sandbox.Backend
	agents  string       // this host's folder of agents
	calls   atomic.Int32 // model calls that have begun
	model   *httptest.Server

	mu  sync.Mutex
	log bytes.Buffer
}

func newWorld(t *testing.T, script string) *world {
	t.Helper()
	return newWorldSeeing(t, script, true)
}

// newWorldSeeing makes a sandbox that sees this host's folder of agents, or has to get its copy.
func newWorldSeeing(t *testing.T, script string, mounted bool) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real OpenCode, a download of 60 MB")
	}
	w := &world{agents: agentsDir(t)}
	_, err := w.agent().Fetch(t.Context())
	require.NoError(t, err)
	mount, how := w.agents, "mounted"
	if !mounted {
		mount, how = "", "uploaded"
	}
	w.backend = newBackend(t, mount)
	id := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) + ".1"
	w.Sandbox, err = w.backend.Create(t.Context(), id, rollout.Sandbox{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.backend.Destroy(context.WithoutCancel(t.Context()), id)) })
	w.serveModel(t, id, script)
	said, err := w.agent().Install(t.Context(), w.env())
	require.NoError(t, err)
	require.Contains(t, said, how)
	return w
}

// agentsDir keeps the binary between test runs.
func agentsDir(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("ROLLOUTD_TEST_AGENTS"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	return filepath.Join(cache, "rolloutd-test", "agents")
}

// agent is a new Agent each time: what one knows, the next has to find out.
func (w *world) agent() *opencode.Agent {
	return opencode.New(opencode.Options{AgentsDir: w.agents})
}

func (w *world) serveModel(t *testing.T, id, script string) {
	t.Helper()
	var scripts scripted.Scripts
	if script != "" {
		var err error
		scripts, err = scripted.Load(strings.NewReader(script))
		require.NoError(t, err)
	}
	w.model = httptest.NewServer(scripted.New(scripted.Options{Scripts: scripts, Log: w}))
	u, err := url.Parse(w.model.URL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.calls.Add(1)
		proxy.ServeHTTP(rw, r)
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = w.backend.ServeModel(ctx, id, handler) // ends with the sandbox
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		w.model.CloseClientConnections()
		w.model.Close()
	})
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// sent is what the model was asked and sent, in order of the calls' ends.
func (w *world) sent(t *testing.T) []scripted.Sent {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []scripted.Sent
	for d := json.NewDecoder(bytes.NewReader(w.log.Bytes())); d.More(); {
		var s scripted.Sent
		require.NoError(t, d.Decode(&s))
		all = append(all, s)
	}
	return all
}

func (w *world) env() agent.Env { return agent.Env{Sandbox: w.Sandbox} }

// begin opens the agent and waits until it has taken the job.
func (w *world) begin(t *testing.T, a *opencode.Agent, job agent.Job) agent.Run {
	t.Helper()
	r, err := a.Open(t.Context(), w.env(), job)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	st, err := r.Next(t.Context())
	require.NoError(t, err)
	require.True(t, st.Ready || st.Done)
	return r
}

// attach attaches a new Agent, as another worker does.
func (w *world) attach(t *testing.T) agent.Run {
	t.Helper()
	r, err := w.agent().Attach(t.Context(), w.env(), agent.Job{})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// finish waits for the end of the job.
func (w *world) finish(t *testing.T, r agent.Run) agent.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		st, err := r.Next(ctx)
		if err != nil {
			w.explain(t, r)
		}
		require.NoError(t, err)
		if st.Done {
			return st
		}
	}
}

func (w *world) explain(t *testing.T, r agent.Run) {
	t.Helper()
	text, err := r.Output(t.Context(), 4000)
	t.Logf("opencode's log: %s (%v); %d model calls", text, err, w.calls.Load())
}

// bash runs a command in the sandbox's workdir.
func (w *world) bash(t *testing.T, name, command string) (output string, status int) {
	t.Helper()
	return w.run(t, name, command, "")
}

// run runs a bash command as a user of the sandbox; "" is the agent's.
func (w *world) run(t *testing.T, name, command, user string) (output string, status int) {
	t.Helper()
	_, err := w.Start(t.Context(), name, wire.Process{
		Argv: []string{"/bin/bash", "--noprofile", "--norc", "-c", command}, Dir: rollout.Workdir, User: user,
		Env: map[string]string{"PYTHONDONTWRITEBYTECODE": "1", "TESTS_DIR": wire.VerifierTests},
	})
	require.NoError(t, err)
	st, err := w.Wait(t.Context(), name, time.Minute)
	require.NoError(t, err)
	require.False(t, st.Running)
	var all []byte
	for _, stream := range []string{"stdout", "stderr"} {
		text, err := w.Tail(t.Context(), name, stream, 4000)
		require.NoError(t, err)
		all = append(all, text...)
	}
	return string(all), st.ExitCode
}

func (w *world) put(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, w.WriteFile(t.Context(), rollout.Workdir+"/"+path, strings.NewReader(text), 0o644))
}

// lastUser is the instruction as it reached the model.
func lastUser(t *testing.T, s scripted.Sent) string {
	t.Helper()
	var r struct {
		Messages []struct {
			Role    string
			Content any
		}
	}
	require.NoError(t, json.Unmarshal(s.Request, &r))
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return fmt.Sprint(r.Messages[i].Content)
		}
	}
	return ""
}
