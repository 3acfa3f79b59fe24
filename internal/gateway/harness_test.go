package gateway_test

import (
	"bytes"
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

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewaytest"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// canary is a model key that must appear only in the Authorization header of upstream requests.
const canary = "sk-canary-0123456789abcdef"

// loopback returns a policy that permits the endpoints of the tests.
func loopback() egress.Policy {
	p, err := egress.Parse([]string{"127.0.0.0/8", "localhost"})
	if err != nil {
		// the patterns are valid
		panic(err)
	}

	return p
}

const patience = 5 * time.Minute

// channels is a Dialer. Each sandbox's model channel has its own listener.
type channels struct {
	mu   sync.Mutex
	open map[string]*httptest.Server

	// called for each new channel; may be nil
	tell func(id, url string)
}

func (d *channels) ServeModel(ctx context.Context, id string, h http.Handler, served func()) error {
	srv := httptest.NewUnstartedServer(h)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	d.mu.Lock()
	d.open[id] = srv
	d.mu.Unlock()
	served()

	if d.tell != nil {
		d.tell(id, srv.URL)
	}

	gone := make(chan struct{})

	srv.Config.RegisterOnShutdown(func() { close(gone) })

	select {
	case <-ctx.Done():
	case <-gone:
	}

	d.mu.Lock()
	if d.open[id] == srv {
		delete(d.open, id)
	}
	d.mu.Unlock()
	srv.CloseClientConnections()
	srv.Close()

	if ctx.Err() != nil {
		return nil
	}

	return errors.New("connection broke")
}

// breakOff ends a sandbox's channel like a lost connection.
func (d *channels) breakOff(id string) {
	d.mu.Lock()
	srv := d.open[id]
	delete(d.open, id)
	d.mu.Unlock()
	srv.CloseClientConnections()
	// ServeModel closes it
	go srv.Config.Shutdown(context.Background())
}

func (d *channels) url(t *testing.T, id string) string {
	t.Helper()

	var url string

	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()

		if srv := d.open[id]; srv != nil {
			url = srv.URL
		}

		return url != ""
	}, patience, time.Millisecond)

	return url
}

// host is a running gateway with its folder.
type host struct {
	dir      string
	key      seal.Key
	options  gateway.Options
	channels *channels
	server   *gateway.Server
	client   *gatewayapi.Client
	trainer  *gatewayapi.Trainer
	stop     func()
}

func newHost(t *testing.T, change ...func(*gateway.Options)) *host {
	t.Helper()
	dir := t.TempDir()
	key, err := seal.LoadOrCreate(filepath.Join(dir, "key"))
	require.NoError(t, err)

	h := &host{dir: filepath.Join(dir, "gateway"), key: key}

	h.options = gateway.Options{Dir: h.dir, Key: key, Egress: loopback(), Backoff: time.Millisecond}
	for _, c := range change {
		c(&h.options)
	}

	h.start(t)

	return h
}

// start starts the gateway, or restarts it on the same folder after stop.
func (h *host) start(t *testing.T) {
	t.Helper()

	h.channels = &channels{open: map[string]*httptest.Server{}}
	h.options.Dialer = h.channels
	srv, err := gateway.New(h.options)
	require.NoError(t, err)

	h.server = srv
	ctx, cancel := context.WithCancel(context.Background())

	over := make(chan error, 1)
	go func() { over <- srv.Run(ctx) }()

	api := admin.New(srv, admin.Options{Key: h.key})
	forRoles := gatewaytest.NewServer(api.Handler())
	h.client = gatewayapi.NewClient(forRoles.URL, h.key)
	trainer := httptest.NewServer(api.TrainerHandler())
	h.trainer = gatewayapi.NewTrainer(trainer.URL, gatewayapi.TrainerToken(h.key))
	h.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-over)
		forRoles.Close()
		trainer.Close()
	})
	t.Cleanup(h.stop)
}

func (h *host) route(upstream string) gatewayapi.Route {
	return gatewayapi.Route{
		ID: "r1.1", RolloutID: "r1", Attempt: 1, SandboxID: "r1.1", Capture: true,
		Model: rollout.Model{
			BaseURL:     upstream + "/v1",
			Name:        "real-model",
			SealedKey:   h.key.Box("model key").SealString(canary),
			Logprobs:    true,
			TopLogprobs: 5,
			TokenIDs:    true,
		},
		Limits: rollout.Limits{Call: patience},
	}
}

func (h *host) open(t *testing.T, r gatewayapi.Route) string {
	t.Helper()
	require.NoError(t, h.client.Open(t.Context(), r))

	return h.channels.url(t, r.SandboxID)
}

func (h *host) status(t *testing.T, id string) gatewayapi.RouteStatus {
	t.Helper()
	s, err := h.client.Status(t.Context(), id)
	require.NoError(t, err)

	return s
}

func (h *host) turns(t *testing.T, id string) []rollout.Turn {
	t.Helper()
	body, err := h.client.Trace(t.Context(), id)
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

// reply is what the agent received.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

// send makes one call as the agent and reads the complete reply.
func send(ctx context.Context, url, callID, body string, headers ...string) reply {
	return sendBy(ctx, http.DefaultClient, url, callID, body, headers...)
}

func sendBy(ctx context.Context, agent *http.Client, url, callID, body string, headers ...string) reply {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}

	if callID != "" {
		req.Header.Set(wire.CallIDHeader, callID)
	}

	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}

	req.Header.Set("Authorization", "Bearer dummy-of-the-agent")

	res, err := agent.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer res.Body.Close()

	b, err := io.ReadAll(res.Body)

	return reply{status: res.StatusCode, header: res.Header, body: string(b), err: err}
}

// startSend makes a call in a goroutine.
func startSend(t *testing.T, url, callID, body string, headers ...string) <-chan reply {
	t.Helper()

	out := make(chan reply, 1)
	go func() { out <- send(t.Context(), url, callID, body, headers...) }()

	return out
}

// streamed requests everything that the gateway requests, too, so that nothing is removed from the reply.
const streamed = `{"model":"m","stream":true,"messages":[{"role":"system","content":"You are an agent."},{"role":"user","content":"hi"}],"tools":[{"type":"function"}],"max_tokens":32000,` +
	`"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":5,"return_token_ids":true,"return_weight_versions":true}`

const unary = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

// goodReply is a complete reply as streamed by vLLM.
const goodReply = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":[1,2,3]}

data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[{"index":0,"delta":{"content":"Hel"},"logprobs":{"content":[{"token":"Hel","logprob":-0.5,"bytes":[72],"top_logprobs":[]}]},"finish_reason":null,"token_ids":[10]}]}

data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[{"index":0,"delta":{"content":"lo"},"logprobs":{"content":[{"token":"lo","logprob":-0.25,"bytes":[108],"top_logprobs":[]}]},"finish_reason":"stop","stop_reason":null,"token_ids":[11]}]}

data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}

data: [DONE]

`

// engine is a scripted upstream. Each request is answered by the next step; the last step answers all further requests.
type engine struct {
	*httptest.Server
	mu    sync.Mutex
	seen  []seen
	steps []http.HandlerFunc
}

type seen struct {
	path   string
	header http.Header
	body   string
}

func newEngine(t *testing.T, steps ...http.HandlerFunc) *engine {
	t.Helper()

	e := &engine{steps: steps}
	e.Server = httptest.NewServer(e)

	t.Cleanup(func() {
		e.CloseClientConnections()
		e.Close()
	})

	return e
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)

	e.mu.Lock()
	step := e.steps[min(len(e.seen), len(e.steps)-1)]
	e.seen = append(e.seen, seen{r.URL.Path, r.Header.Clone(), string(body)})
	e.mu.Unlock()

	r.Body = io.NopCloser(bytes.NewReader(body))
	step(w, r)
}

func (e *engine) requests() []seen {
	e.mu.Lock()
	defer e.mu.Unlock()

	return append([]seen(nil), e.seen...)
}

func (e *engine) paths() []string {
	var all []string
	for _, s := range e.requests() {
		all = append(all, s.path)
	}

	return all
}

// says streams the text as a reply.
func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
	}
}

// answers replies with a status and a body.
func answers(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}

		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// cutOff breaks the connection after the text.
func cutOff(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		says(text)(w, r)
		_ = http.NewResponseController(w).Flush()

		panic(http.ErrAbortHandler)
	}
}

// hanging sends the beginning of a reply, sends on begun, and waits until the request is canceled (then it
// sends on gone) or released.
type hanging struct {
	begun, gone, release chan struct{}
	first, rest          string
}

func newHanging(first, rest string) *hanging {
	return &hanging{
		begun:   make(chan struct{}, 16),
		gone:    make(chan struct{}, 16),
		release: make(chan struct{}),
		first:   first,
		rest:    rest,
	}
}

func (h *hanging) serve(w http.ResponseWriter, r *http.Request) {
	says(h.first)(w, r)
	_ = http.NewResponseController(w).Flush()

	h.begun <- struct{}{}

	select {
	case <-r.Context().Done():
		h.gone <- struct{}{}
	case <-h.release:
		_, _ = io.WriteString(w, h.rest)
	}
}

// keepAlive sends only comments until the request is canceled.
func (h *hanging) keepAlive(w http.ResponseWriter, r *http.Request) {
	h.begun <- struct{}{}

	for r.Context().Err() == nil {
		says(": keep-alive\n\n")(w, r)
		_ = http.NewResponseController(w).Flush()
		_ = clock.Sleep(r.Context(), pollStep)
	}

	h.gone <- struct{}{}
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()

	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("not reached")
	}
}
