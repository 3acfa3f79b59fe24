package agenttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/scripted"
)

// scripts are the scripts of the suite's model.
const scripts = `
- {name: endless, match: "` + EndlessInstruction + `", turns: [{text: never, faults: [{hang: true}]}]}
- {name: quick, turns: [{text: Done.}]}
`

// Place is a sandbox of one test, whose model channel leads to a scripted model.
type Place struct {
	*sandbox.Sandbox
	Backend *sandbox.Backend

	// model calls that have begun, without tokenizer requests
	Calls   atomic.Int32
	id      string
	model   *httptest.Server
	envOnce sync.Once

	// see Harness.Env
	env agent.Env

	mu  sync.Mutex
	log bytes.Buffer
}

// NewPlace creates a sandbox that is destroyed at the end of the test. script is the model's script in
// YAML; "" is the demo's.
func NewPlace(t *testing.T, b *sandbox.Backend, script string) *Place {
	t.Helper()
	p := NewPlaceWithoutModel(t, b)
	p.ServeModel(t, script)

	return p
}

// NewPlaceWithoutModel creates a place that has no model until ServeModel.
func NewPlaceWithoutModel(t *testing.T, b *sandbox.Backend) *Place {
	t.Helper()

	p := &Place{Backend: b, id: "test-" + rand.Text() + ".1"}

	var err error

	p.Sandbox, err = b.Create(t.Context(), p.id, rollout.Sandbox{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { p.Destroy(t) })

	return p
}

// Destroy removes the sandbox; a no-op when it is gone.
func (p *Place) Destroy(t *testing.T) {
	t.Helper()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	defer cancel()

	require.NoError(t, p.Backend.Destroy(ctx, p.id))
}

// Env is the agent's environment: the sandbox only.
func (p *Place) Env() agent.Env { return agent.Env{Sandbox: p.Sandbox} }

// ServeModel serves the sandbox's model calls until the test ends; see NewPlace.
func (p *Place) ServeModel(t *testing.T, script string) {
	t.Helper()

	var all scripted.Scripts

	if script != "" {
		var err error

		all, err = scripted.Load(strings.NewReader(script))
		require.NoError(t, err)
	}

	played := scripted.New(scripted.Options{Scripts: all, Log: p})
	p.model = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tokenize" {
			p.Calls.Add(1)
		}

		played.ServeHTTP(rw, r)
	}))
	u, err := url.Parse(p.model.URL)
	require.NoError(t, err)

	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u) },
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	ctx, cancel := context.WithCancel(t.Context())

	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			// ends with the sandbox
			_ = p.Backend.ServeModel(ctx, p.id, proxy, nil)
			_ = clock.Sleep(ctx, 20*time.Millisecond)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		p.model.CloseClientConnections()
		p.model.Close()
	})
}

// ModelURL is the base URL of the model, for a test with its own gateway.
func (p *Place) ModelURL() string { return p.model.URL + "/v1" }

// StopModel stops the model. Later calls fail.
func (p *Place) StopModel() { p.model.CloseClientConnections(); p.model.Close() }

// Write implements io.Writer for the model's log.
func (p *Place) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	return p.log.Write(b)
}

// Sent returns the model's requests and replies, in the order in which the calls ended.
func (p *Place) Sent(t *testing.T) []scripted.Sent {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()

	var all []scripted.Sent

	for d := json.NewDecoder(bytes.NewReader(p.log.Bytes())); d.More(); {
		var s scripted.Sent
		require.NoError(t, d.Decode(&s))
		all = append(all, s)
	}

	return all
}

// Finish waits for the end of the agent's work.
func Finish(t *testing.T, r agent.Run) agent.Status {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()

	for {
		st, err := r.Next(ctx)
		if err != nil {
			out, outErr := r.Output(t.Context(), 4000)
			t.Logf("the agent's output: %s (%v)", out, outErr)
		}

		require.NoError(t, err)

		if st.Done {
			return st
		}
	}
}
