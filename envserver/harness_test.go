package envserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// patience bounds every wait of these tests. Only a bug makes a test wait that long.
const patience = 5 * time.Minute

// rig is a server with a fake engine and its own listener.
type rig struct {
	t       *testing.T
	fake    *fake
	srv     *envserver.Server
	url     string
	http    *httptest.Server
	says    *contract
	resolve func(catalog.Request) (rollout.Model, string, error)
}

func start(t *testing.T, change ...func(*envserver.Options)) *rig {
	t.Helper()

	f := newFake()
	env := map[string]string{"VLLM_URL": "http://vllm.test:8000", "OPENAI_API_KEY": "sk-from-env"}

	o := envserver.Options{
		Rollouts:   f,
		Groups:     &fakeGroups{states: map[string]rollout.GroupState{}},
		Regrades:   &fakeRegrades{},
		Deliveries: &fakeDeliveries{},
		Fleet:      &fakeHosts{},
		Endpoints:  &fakeEndpoints{},
		Producers:  newFakeProducers(),
		Resolve:    catalog.New(func(k string) string { return env[k] }, egress.Policy{}).Resolve,
		Seal:       func(key string) string { return "sealed(" + key + ")" },
		Linger:     patience,
		GiveUp:     patience, // a slow machine must not look like a client that gave up
	}
	for _, c := range change {
		c(&o)
	}

	srv, err := envserver.New(o)
	require.NoError(t, err)

	ts := httptest.NewServer(srv)

	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()

		require.NoError(t, srv.Shutdown(ctx))
		ts.Close()
	})

	return &rig{t: t, fake: f, srv: srv, url: ts.URL, http: ts, resolve: o.Resolve, says: newContract(t, srv)}
}

// do sends a request and returns status, headers and body. It checks the answer against the OpenAPI document.
func (r *rig) do(method, path, body string, headers ...string) (int, http.Header, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	// the reference server may close a kept connection when the next request arrives
	req.Close = r.srv == nil
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}

	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}

	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := plain.Do(req)
	require.NoError(r.t, err)

	defer resp.Body.Close()

	out, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	r.says.note(req, resp, out)

	return resp.StatusCode, resp.Header, string(out)
}

// rpc sends a JSON-RPC request over HTTP.
func (r *rig) rpc(method string, params map[string]any) map[string]any {
	r.t.Helper()

	if params == nil {
		params = map[string]any{}
	}

	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
	require.NoError(r.t, err)
	status, _, out := r.do("POST", "/mcp", string(body))
	require.Equal(r.t, http.StatusOK, status)

	return object(r.t, out)
}

// session opens a session over HTTP.
func (r *rig) session() string {
	r.t.Helper()
	return valueAt(r.t, r.rpc("openenv/session/create", nil), "result", "session_id").(string)
}

// socket is a WebSocket client.
type socket struct {
	t *testing.T
	*websocket.Conn
}

func (r *rig) dial(path string, headers ...string) socket {
	r.t.Helper()
	c := r.open(path, headers...)
	r.t.Cleanup(func() { _ = c.Close() })

	return c
}

// open is dial without a Cleanup, which would keep the connection in memory until the test ends.
func (r *rig) open(path string, headers ...string) socket {
	r.t.Helper()

	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}

	c, resp, err := websocket.DefaultDialer.DialContext(r.t.Context(), "ws"+strings.TrimPrefix(r.url, "http")+path, h)
	require.NoError(r.t, err)

	_ = resp.Body.Close()

	require.NoError(r.t, c.SetReadDeadline(time.Now().Add(patience)))

	return socket{r.t, c}
}

func (s socket) send(frame string) {
	s.t.Helper()
	require.NoError(s.t, s.WriteMessage(websocket.TextMessage, []byte(frame)))
}

func (s socket) read() string {
	s.t.Helper()
	_, raw, err := s.ReadMessage()
	require.NoError(s.t, err)

	return string(raw)
}

// ask sends one frame and returns the reply.
func (s socket) ask(frame string) string {
	s.t.Helper()
	s.send(frame)

	return s.read()
}

// closed waits for the server's close frame and returns its code.
func (s socket) closed() int {
	s.t.Helper()
	_, _, err := s.ReadMessage()

	var closed *websocket.CloseError
	require.ErrorAs(s.t, err, &closed)

	return closed.Code
}

// call returns the frame of a tool call.
func call(tool string, args map[string]any) string {
	if args == nil {
		args = map[string]any{}
	}

	raw, err := json.Marshal(map[string]any{
		"type": "step",
		"data": map[string]any{"type": "call_tool", "tool_name": tool, "arguments": args},
	})
	if err != nil {
		panic(err)
	}

	return string(raw)
}

// task returns the arguments of a rollout that resolves without further arguments.
func task(id, instruction string, more ...any) map[string]any {
	args := map[string]any{"endpoint": "vllm", "instruction": instruction, "rollout_id": id}
	for i := 0; i < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}

	return args
}

func object(t *testing.T, raw string) map[string]any {
	t.Helper()

	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(raw), &v), raw)

	return v
}

// valueAt follows keys and indexes into a decoded value.
func valueAt(t *testing.T, v any, path ...any) any {
	t.Helper()

	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			require.Truef(t, ok, "no object at %v in %v", p, v)
			v = m[p]
		case int:
			l, ok := v.([]any)
			require.Truef(t, ok && p < len(l), "no item %d in %v", p, v)
			v = l[p]
		}
	}

	return v
}

// answer decodes the JSON text that a tool returned over /ws.
func answer(t *testing.T, frame string) map[string]any {
	t.Helper()
	text, ok := valueAt(t, object(t, frame), "data", "observation", "result", "data").(string)
	require.True(t, ok, frame)

	return object(t, text)
}

// onlyVLLM is an environment with the URL of one endpoint.
func onlyVLLM(name string) string {
	if name == "VLLM_URL" {
		return "http://vllm.test"
	}

	return ""
}
