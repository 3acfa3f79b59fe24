package envserver_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/telemetry/untraced"
)

func TestTokens(t *testing.T) {
	t.Parallel()

	const token = "0123456789abcdef"

	r := start(t, func(o *envserver.Options) {
		o.Tokens = []envserver.Token{envserver.PlainToken("another-token-here"), envserver.PlainToken(token)}
	})
	for name, tc := range map[string]struct {
		path, header string
		status       int
	}{
		"health is open":     {"/health", "", 200},
		"none":               {"/metadata", "", 401},
		"wrong":              {"/metadata", "Bearer 0123456789abcdeX", 401},
		"empty":              {"/metadata", "Bearer ", 401},
		"another scheme":     {"/metadata", "Token " + token, 401},
		"bearer":             {"/metadata", "Bearer " + token, 200},
		"scheme by any case": {"/metadata", "bearer " + token, 200},
		"unknown path":       {"/nope", "", 401},
		"basic password":     {"/metadata", "Basic dTowMTIzNDU2Nzg5YWJjZGVm", 200},
	} {
		t.Run(name, func(t *testing.T) {
			status, headers, _ := r.do("GET", tc.path, "", "Authorization", tc.header)
			require.Equal(t, tc.status, status)
			require.Equal(t, tc.status == 401, headers.Get("WWW-Authenticate") != "")
		})
	}
}

func TestPagesOfOtherOriginsCannotCall(t *testing.T) {
	t.Parallel()
	r := start(t)
	status, _, body := r.do(
		"POST",
		"/step",
		`{"action":{"type":"list_tools"}}`,
		"Sec-Fetch-Site",
		"cross-site",
		"Content-Type",
		"text/plain",
	)
	require.Equal(t, http.StatusForbidden, status)
	require.JSONEq(t, `{"detail":"Cross-origin request refused"}`, body)
}

// GET requests of frames and images of other origins' pages are refused, since they could take session
// slots. A link that a user follows is allowed.
func TestGetsOfOtherOriginsAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	status, _, _ := r.do(
		"GET",
		"/web/state?session_id=s",
		"",
		"Sec-Fetch-Site",
		"cross-site",
		"Sec-Fetch-Mode",
		"no-cors",
		"Sec-Fetch-Dest",
		"image",
	)
	require.Equal(t, http.StatusForbidden, status)
	status, _, _ = r.do(
		"GET",
		"/web/state?session_id=s",
		"",
		"Sec-Fetch-Site",
		"cross-site",
		"Sec-Fetch-Mode",
		"navigate",
		"Sec-Fetch-Dest",
		"iframe",
	)
	require.Equal(t, http.StatusForbidden, status)
	status, _, _ = r.do(
		"GET",
		"/web/",
		"",
		"Sec-Fetch-Site",
		"cross-site",
		"Sec-Fetch-Mode",
		"navigate",
		"Sec-Fetch-Dest",
		"document",
	)
	require.Equal(t, http.StatusOK, status)
	status, _, _ = r.do(
		"GET",
		"/state",
		"",
		"Sec-Fetch-Site",
		"same-origin",
		"Sec-Fetch-Mode",
		"cors",
		"Sec-Fetch-Dest",
		"empty",
	)
	require.Equal(t, http.StatusOK, status)
}

// A foreign page whose name resolves to a server without tokens can neither call it nor open a WebSocket.
// For the browser both have one origin, but the Host header has the page's name.
func TestRebindingPagesAreRefused(t *testing.T) {
	t.Parallel()

	ask := func(url, path, host string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		require.NoError(t, err)

		req.Host = host
		req.Header.Set("Origin", "http://"+host)
		req.Header.Set("Sec-Fetch-Site", "same-origin")

		if path == "/ws" {
			for k, v := range map[string]string{
				"Connection":            "Upgrade",
				"Upgrade":               "websocket",
				"Sec-WebSocket-Version": "13",
				"Sec-WebSocket-Key":     "MTIzNDU2Nzg5MDEyMzQ1Ng==",
			} {
				req.Header.Set(k, v)
			}
		}

		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())

		return resp.StatusCode
	}
	open := start(t, withWeb, func(o *envserver.Options) { o.Hosts = []string{"gpu-1"} })

	for host, wants := range map[string]int{
		"evil.test":      http.StatusForbidden,
		"evil.test:8000": http.StatusForbidden,
		"localhost:8000": 200,
		"gpu-1:8000":     200,
	} {
		for _, path := range []string{"/rollouts", "/health", "/web/", "/ws"} {
			want := wants
			if path == "/ws" && want == http.StatusOK {
				want = http.StatusSwitchingProtocols
			}

			require.Equal(t, want, ask(open.url, path, host), "%s of %s", path, host)
		}
	}

	closed := start(t, func(o *envserver.Options) { o.Tokens = []envserver.Token{envserver.PlainToken("secret")} })
	require.Equal(
		t,
		http.StatusUnauthorized,
		ask(closed.url, "/rollouts", "env.company.test"),
		"a token protects it under any name",
	)
}

// Browsers do not guess the type of an answer, so that an agent's output is not shown as a page.
func TestBrowsersDoNotGuessTypes(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	require.Contains(t, r.rpc("tools/call", map[string]any{
		"name":      "start_rollout",
		"arguments": task("r", "x"),
	}), "result")

	for path, status := range map[string]int{
		"/health":                200,
		"/rollouts/r/result":     200,
		"/rollouts/r/logs/agent": 200,
		"/rollouts/r/trace":      200,
		"/rollouts/none":         404,
		"/none":                  404,
		"/web/":                  200,
		"/docs":                  200,
	} {
		got, headers, _ := r.do("GET", path, "")
		require.Equal(t, status, got, path)
		require.Equal(t, "nosniff", headers.Get("X-Content-Type-Options"), path)
	}
}

// A client without a token cannot hold a connection by sending its body slowly.
func TestRefusedClientIsDisconnected(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.Tokens = []envserver.Token{envserver.PlainToken("secret")} })
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(t, err)

	defer c.Close()

	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(c, "POST /step HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	require.NoError(t, err)
	raw, err := io.ReadAll(c)
	require.NoError(t, err, "the server hangs up")
	require.Contains(t, string(raw), "HTTP/1.1 401 ")
}

func TestBodyTooLarge(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.MaxMessage = 100 })

	for _, path := range []string{"/mcp", "/reset", "/step"} {
		for _, accept := range []string{"*/*", "application/json, text/event-stream"} {
			status, _, body := r.do("POST", path, `{"x":"`+strings.Repeat("y", 200)+`"}`, "Accept", accept)
			require.Equal(t, http.StatusRequestEntityTooLarge, status, path)
			require.JSONEq(t, `{"detail":"Request body too large"}`, body)
		}
	}
}

// A body up to the bound is accepted, by every protocol.
func TestBodyUpToTheBound(t *testing.T) {
	t.Parallel()
	r := start(t)

	for accept, size := range map[string]int{"*/*": 15 << 20, "application/json, text/event-stream": 3 << 20} {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_state","arguments":{"rollout_id":"` + strings.Repeat(
			"y",
			size,
		) + `"}}}`
		status, _, out := r.do("POST", "/mcp", body, "Accept", accept)
		require.Equal(t, http.StatusOK, status)
		require.Contains(
			t,
			out,
			"arguments of get_state: more than 1835008 bytes of text",
			"it was read, decoded and found too long",
		)
	}
}

func TestHeadersTooLarge(t *testing.T) {
	t.Parallel()
	r := start(t)

	large := strings.Repeat("y", 40<<10)
	for name, tc := range map[string]struct {
		path    string
		headers []string
		status  int
	}{
		"one that fits":  {"/metadata", []string{"X-One", large}, http.StatusOK},
		"two together":   {"/metadata", []string{"X-One", large, "X-Two", large}, http.StatusRequestHeaderFieldsTooLarge},
		"with the query": {"/metadata?" + large, []string{"X-One", large}, http.StatusRequestHeaderFieldsTooLarge},
	} {
		status, _, body := r.do("GET", tc.path, "", tc.headers...)
		require.Equal(t, tc.status, status, name)
		require.Equal(t, status != http.StatusOK, object(t, body)["detail"] == "Request headers too large", name)
	}
}

// A client that sends its body byte by byte gets 408, and its connection is closed.
func TestSlowRequestBodyTimesOut(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.BodyTimeout = 100 * time.Millisecond })

	const proper = "/mcp HTTP/1.1\r\nAccept: application/json, text/event-stream"
	for _, path := range []string{"/reset", "/step", "/mcp", proper, "/rollouts", "/rollouts/x/abort"} {
		if path != proper {
			path += " HTTP/1.1"
		}

		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		require.NoError(t, err)

		defer c.Close()

		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		_, err = io.WriteString(c, "POST "+path+"\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		require.NoError(t, err)
		raw, err := io.ReadAll(c)
		require.NoError(t, err, "the server hangs up")
		require.Contains(t, string(raw), "HTTP/1.1 408 ", path)
		require.Contains(t, string(raw), `{"detail":"The body did not come in time"}`, path)
	}
}

// logs is a buffer that a logger can write to while a test reads it.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.b.String()
}

func TestABugIsAnErrorWithAnID(t *testing.T) {
	t.Parallel()

	var log logs

	r := start(t, func(o *envserver.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	c := r.dial("/ws")
	failed := valueAt(t, object(t, c.ask(call("run_rollout", task("r", panics)))), "data", "observation", "error")
	require.Equal(t, "execution_error", valueAt(t, failed, "error_type"))
	message := valueAt(t, failed, "message").(string)
	require.Regexp(t, `^internal error \(id [0-9a-f-]{36}\)$`, message)
	id := message[len("internal error (id ") : len(message)-1]
	require.Contains(t, log.String(), id)
	require.Contains(t, log.String(), "a bug")
	require.Contains(t, c.ask(`{"type":"state"}`), "step_count", "the session goes on")

	out := r.rpc("tools/call", map[string]any{"name": "run_rollout", "arguments": task("r", panics)})
	require.EqualValues(t, -32603, valueAt(t, out, "error", "code"))
}

// brokenWriter simulates a bug outside the tools: the first WriteHeader panics.
type brokenWriter struct {
	http.ResponseWriter
	broken bool
}

func (w *brokenWriter) WriteHeader(status int) {
	if !w.broken {
		w.broken = true

		panic("torn cable")
	}

	w.ResponseWriter.WriteHeader(status)
}

func TestAPanicInAHandlerIsA500WithAnID(t *testing.T) {
	t.Parallel()

	var log logs

	r := start(t, func(o *envserver.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	rec := httptest.NewRecorder()
	r.srv.ServeHTTP(
		&brokenWriter{ResponseWriter: rec},
		httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/health", nil),
	)
	require.Equal(t, http.StatusInternalServerError, rec.Code)
	body := object(t, rec.Body.String())
	require.Equal(t, "Internal Server Error", body["detail"])
	require.Contains(t, log.String(), body["error_id"])
	require.Contains(t, log.String(), "torn cable")
}

func TestMetricsAndSpans(t *testing.T) {
	t.Parallel()

	registry := prometheus.NewRegistry()
	spans := tracetest.NewSpanRecorder()
	r := start(t, func(o *envserver.Options) {
		o.Registerer, o.MaxSessions = registry, 1
		o.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(untraced.Filter(spans)))
	})
	c := r.dial("/ws")
	c.ask(call("get_state", map[string]any{"rollout_id": "x"}))
	c.ask(call("no-such-tool", nil))
	c.ask(`{"type":"state"}`)
	c.ask(`{"type":"reset"}`)
	c.ask(`{"type":"step","data":{"type":"list_tools"}}`)
	c.ask(`{"type":"an invention"}`)
	r.rpc("tools/call", map[string]any{"name": "get_state", "arguments": map[string]any{"rollout_id": "x"}})
	r.do("GET", "/health", "")
	r.do("GET", "/some/other/path", "")
	// refused
	r.rpc("openenv/session/create", nil)
	r.rpc("tools/list", nil)
	r.do("POST", "/step", `{"action":{"type":"list_tools"}}`)
	r.do(
		"POST",
		"/mcp",
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"Accept",
		"application/json, text/event-stream",
	)
	require.Equal(t, map[string]float64{
		"sessions":                                1,
		"sessions_refused_total":                  1,
		"tool_calls_total ok get_state":           2,
		"tool_calls_total ok list_tools":          4,
		"tool_calls_total tool_not_found unknown": 1,
		"tool_call_seconds get_state":             2,
		"tool_call_seconds unknown":               1,
	}, metricValues(t, registry))

	var names []string

	r.eventually(func() bool { return len(spans.Ended()) >= 8 }, "spans ended")

	for _, s := range spans.Ended() {
		names = append(names, s.Name())
	}

	require.ElementsMatch(t, []string{
		"ws step", "tool unknown", "ws reset", "ws step",
		"POST /mcp", "POST /mcp", "POST /step", "POST /mcp",
	}, names, "reads have none")
}

// The spans of a tool call and of the engine belong to the client's trace, over HTTP by request and over a
// WebSocket by connection.
func TestTraceContextIsPropagated(t *testing.T) {
	t.Parallel()

	spans := tracetest.NewSpanRecorder()
	r := start(t, func(o *envserver.Options) {
		o.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	})

	const trace = "0af7651916cd43dd8448eb211c80319c"

	parent := []string{"Traceparent", "00-" + trace + "-b7ad6b7169203331-01"}
	r.dial("/ws", parent...).ask(call("run_rollout", task("a", "x")))

	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_state","arguments":{"rollout_id":"a"}}}`
	r.do("POST", "/mcp", body, parent...)
	r.eventually(func() bool { return len(spans.Ended()) >= 3 }, "spans ended")

	for _, s := range spans.Ended() {
		require.Equal(t, trace, s.SpanContext().TraceID().String(), s.Name())
	}

	require.Equal(t, trace, r.fake.traceOf("a"))
}

// metricValues reads a registry. It maps the name and label values of each series, without our prefix, to
// its value or number of observations.
func metricValues(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()

	families, err := registry.Gather()
	require.NoError(t, err)

	out := map[string]float64{}

	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "rolloutd_envserver_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}

			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}

	return out
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()

	registry := prometheus.NewRegistry()
	r := start(t, func(o *envserver.Options) { o.Registerer = registry })
	_, err := envserver.New(envserver.Options{
		Rollouts:   r.fake,
		Resolve:    r.resolve,
		Seal:       strings.ToUpper,
		Registerer: registry,
	})
	require.ErrorContains(t, err, "metrics")
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()

	r := start(t)
	for name, o := range map[string]envserver.Options{
		"required":     {Rollouts: r.fake},
		"mode sandbox": {Rollouts: r.fake, Resolve: r.resolve, Seal: strings.ToUpper, Mode: "sandbox"},
		`allowed origin "nowhere"`: {
			Rollouts:       r.fake,
			Resolve:        r.resolve,
			Seal:           strings.ToUpper,
			AllowedOrigins: []string{"nowhere"},
		},
	} {
		_, err := envserver.New(o)
		require.ErrorContains(t, err, name)
	}
}

// A client from the MCP library initializes a session, lists the tools and calls one.
func TestStandardMCPClient(t *testing.T) {
	t.Parallel()
	r := start(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.url + "/mcp"}, nil)

	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()

	tools, err := s.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, tools.Tools, 9)
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{
		Name:      "run_rollout",
		Arguments: task("r", "x", "task_id", "t"),
	})
	require.NoError(t, err)
	require.False(t, res.IsError)
	require.Equal(t, "t", object(t, res.Content[0].(*mcp.TextContent).Text)["task_id"])
	_, err = s.CallTool(t.Context(), &mcp.CallToolParams{
		Name:      "run_rollout",
		Arguments: map[string]any{"instruction": 5},
	})

	var wrong *jsonrpc.Error
	require.ErrorAs(t, err, &wrong)
	require.EqualValues(t, jsonrpc.CodeInvalidParams, wrong.Code)
	require.Contains(t, wrong.Message, "instruction")
}

// Clients of older protocol versions also send pings and notifications.
func TestStandardMCPPingAndNotification(t *testing.T) {
	t.Parallel()
	r := start(t)
	headers := []string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18"}
	status, _, body := r.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"ping","id":1}`, headers...)
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"result":{}}`, body)
	status, _, body = r.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
	require.Equal(t, http.StatusAccepted, status, body)
}
