package envserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

// wireCase is a request and its expected response, in which "<any>" stands for any value except null and
// "<uuid>" for a UUID.
type wireCase struct {
	Name, Method, Path, Body string
	Send                     string
	Status                   int
	Headers                  map[string]string
	Want                     json.RawMessage
	HTTPOnly                 bool `json:"http_only"`

	// the error's message over a WebSocket, if it differs
	WS string

	// why the reference server answers differently, if it does
	Differs string
}

// script is the exchange of frames on one connection. Differs says why the reference server answers
// differently or closes the connection.
type script struct {
	Name   string
	Frames []struct {
		Send    string
		Want    json.RawMessage
		Closes  int
		Differs string
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

// requireSame fails the test if got differs from want.
func requireSame(t *testing.T, want, got any, path string) {
	t.Helper()
	require.NoError(t, mismatch(want, got, path))
}

// mismatch compares got with want key by key. It reports missing and additional keys.
func mismatch(want, got any, path string) error {
	switch w := want.(type) {
	case string:
		text, _ := got.(string)
		if w == "<any>" && got != nil || w == "<uuid>" && uuidPattern.MatchString(text) {
			return nil
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || !slices.Equal(slices.Sorted(maps.Keys(w)), slices.Sorted(maps.Keys(g))) {
			return fmt.Errorf("%s: want an object like %v, got %v", path, w, got)
		}

		for k, v := range w {
			if err := mismatch(v, g[k], path+"."+k); err != nil {
				return err
			}
		}

		return nil
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Errorf("%s: want %d items, got %v", path, len(w), got)
		}

		for i := range w {
			if err := mismatch(w[i], g[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}

		return nil
	}

	if want != got && !sameNumber(want, got) {
		return fmt.Errorf("%s: want %v, got %v", path, want, got)
	}

	return nil
}

// sameNumber treats 0 and 0.0 as equal.
func sameNumber(a, b any) bool {
	x, isNumber := a.(json.Number)

	y, both := b.(json.Number)
	if !isNumber || !both {
		return false
	}

	p, err := x.Float64()
	q, err2 := y.Float64()

	return err == nil && err2 == nil && p == q
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
				requireSame(t, decode(t, c.Want), decode(t, []byte(body)), "body")
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

				requireSame(t, decode(t, f.Want), decode(t, []byte(c.read())), f.Send)
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
			// The content type of the request is ignored.
			status, _, body := r.do("POST", "/mcp", c.Send, "Content-Type", "text/plain")
			require.Equal(t, http.StatusOK, status)
			requireSame(t, decode(t, c.Want), decode(t, []byte(body)), "http")

			if c.HTTPOnly {
				return
			}

			want := decode(t, c.Want)
			if c.WS != "" {
				valueAt(t, want, "error").(map[string]any)["message"] = c.WS
			}

			requireSame(t, want, decode(t, []byte(socket.ask(c.Send))), "ws")
		})
	}
}

// A WebSocket handshake at any other path is refused, whether or not a route exists there.
func TestHandshakesAtOtherPathsAreRefused(t *testing.T) {
	t.Parallel()

	r := start(t)
	for _, path := range []string{"/nope", "/ws/", "/foo/ws", "/ws/ui", "/health", "/reset"} {
		_, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(r.url, "http")+path, nil)
		require.Error(t, err)
		require.Equal(t, http.StatusForbidden, resp.StatusCode, path)
	}
}

// The documents that describe the server change only on purpose. Run with UPDATE=1 to rewrite them, and
// review the difference.
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

	requireSame(
		t,
		decode(t, []byte(`{"type":"observation","data":{"observation":{"metadata":{}},"reward":null,"done":false}}`)),
		decode(t, []byte(r.dial("/ws").ask(`{"type":"reset"}`))),
		"reset over /ws works in production, too",
	)
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

// parsed returns a decoded JSON value, or the text itself if it is not JSON.
func parsed(text string) any {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()

	var v any
	if dec.Decode(&v) != nil {
		return text
	}

	return v
}
