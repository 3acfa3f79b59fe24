package envserver_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

// wireCase is a request and its answer. In answers "<any>" stands for anything and "<uuid>" for a UUID.
type wireCase struct {
	Name, Method, Path, Body string
	Send                     string
	Status                   int
	Headers                  map[string]string
	Want                     json.RawMessage
	HTTPOnly                 bool   `json:"http_only"`
	WS                       string // the error's message over a WebSocket, where it differs
}

type script struct {
	Name   string
	Frames []struct {
		Send   string
		Want   json.RawMessage
		Closes int
	}
}

func load[T any](t *testing.T, name string) []T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "wire", name))
	require.NoError(t, err)
	var cases []T
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.NotEmpty(t, cases)
	return cases
}

func decode(t *testing.T, raw []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v), string(raw))
	return v
}

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// same compares an answer with what was wanted of it, key by key: an answer has nothing more and nothing less.
func same(t *testing.T, want, got any, path string) {
	t.Helper()
	switch w := want.(type) {
	case string:
		if w == "<any>" {
			require.NotNil(t, got, path)
			return
		}
		if w == "<uuid>" {
			require.Regexp(t, uuidPattern, got, path)
			return
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		require.Truef(t, ok, "%s: want an object, got %v", path, got)
		for k := range g {
			require.Containsf(t, w, k, "%s has a key too many", path)
		}
		for k, v := range w {
			require.Containsf(t, g, k, "%s lacks a key", path)
			same(t, v, g[k], path+"."+k)
		}
		return
	case []any:
		g, ok := got.([]any)
		require.Truef(t, ok && len(g) == len(w), "%s: want %d items, got %v", path, len(w), got)
		for i := range w {
			same(t, w[i], g[i], path+"[]")
		}
		return
	}
	require.Equal(t, want, got, path)
}

func TestHTTPWire(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, c := range load[wireCase](t, "http.json") {
		t.Run(c.Name, func(t *testing.T) {
			status, headers, body := r.do(c.Method, c.Path, c.Body)
			require.Equal(t, c.Status, status, body)
			for k, v := range c.Headers {
				require.Equal(t, strings.Replace(v, "<url>", r.url, 1), headers.Get(k), k)
			}
			if c.Want != nil {
				require.Equal(t, "application/json", headers.Get("Content-Type"))
				same(t, decode(t, c.Want), decode(t, []byte(body)), "body")
			}
		})
	}
}

func TestWebSocketWire(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, s := range load[script](t, "ws.json") {
		t.Run(s.Name, func(t *testing.T) {
			c := r.dial("/ws")
			for _, f := range s.Frames {
				c.send(f.Send)
				if f.Closes != 0 {
					require.Equal(t, f.Closes, c.closed())
					continue
				}
				same(t, decode(t, f.Want), decode(t, []byte(c.read())), f.Send)
			}
		})
	}
}

func TestRPCWire(t *testing.T) {
	t.Parallel()
	r := start(t)
	socket := r.dial("/mcp")
	for _, c := range load[wireCase](t, "rpc.json") {
		t.Run(c.Name, func(t *testing.T) {
			// The request's content type is not looked at.
			status, _, body := r.do("POST", "/mcp", c.Send, "Content-Type", "text/plain")
			require.Equal(t, http.StatusOK, status)
			same(t, decode(t, c.Want), decode(t, []byte(body)), "http")
			if c.HTTPOnly {
				return
			}
			want := decode(t, c.Want)
			if c.WS != "" {
				dig(t, want, "error").(map[string]any)["message"] = c.WS
			}
			same(t, want, decode(t, []byte(socket.ask(c.Send))), "ws")
		})
	}
}

// A handshake where there is no WebSocket is refused, be there a route or not.
func TestHandshakesElsewhereAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, path := range []string{"/nope", "/ws/", "/foo/ws", "/ws/ui", "/health", "/reset"} {
		_, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(r.url, "http")+path, nil)
		require.Error(t, err)
		require.Equal(t, http.StatusForbidden, resp.StatusCode, path)
	}
}

// The pages that describe the server change only on purpose: run with UPDATE=1 to write them anew, and read the difference.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	sim := start(t)
	prod := start(t, func(o *envserver.Options) { o.Mode = envserver.Production })
	for name, get := range map[string]func() (int, http.Header, string){
		"schema.json":             func() (int, http.Header, string) { return sim.do("GET", "/schema", "") },
		"openapi-simulation.json": func() (int, http.Header, string) { return sim.do("GET", "/openapi.json", "") },
		"openapi-production.json": func() (int, http.Header, string) { return prod.do("GET", "/openapi.json", "") },
		"tools.json": func() (int, http.Header, string) {
			return sim.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"tools/list","id":1}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, body := get()
			require.Equal(t, http.StatusOK, status)
			var pretty bytes.Buffer
			require.NoError(t, json.Indent(&pretty, []byte(body), "", "  "))
			pretty.WriteByte('\n')
			file := filepath.Join("testdata", "golden", name)
			if os.Getenv("UPDATE") != "" {
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, pretty.Bytes(), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), pretty.String(), "UPDATE=1 writes it anew")
		})
	}
}

func TestProductionHasNoSimulationRoutes(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.Mode = envserver.Production })
	for _, c := range []struct{ method, path string }{{"POST", "/reset"}, {"POST", "/step"}, {"GET", "/state"}} {
		status, _, body := r.do(c.method, c.path, "")
		require.Equal(t, http.StatusNotFound, status, c.path)
		require.JSONEq(t, `{"detail":"Not Found"}`, body)
	}
	same(t, decode(t, []byte(`{"type":"observation","data":{"observation":{},"reward":null,"done":false}}`)),
		decode(t, []byte(r.dial("/ws").ask(`{"type":"reset"}`))), "reset over /ws works in production, too")
}

func TestDocsPage(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.Description = "<script>" })
	status, headers, body := r.do("GET", "/docs", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "text/html; charset=utf-8", headers.Get("Content-Type"))
	require.Contains(t, body, "finalize_rollout")
	require.Contains(t, body, "/metadata")
	require.NotContains(t, body, "<script>")
}
