//go:build !race

// The tests of this file send one request after the other and measure what the process allocates for it, so
// they are not parallel. `make test` runs them without the race detector, which makes decoding the largest
// requests ten times as slow.

package envserver_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// sink is a response writer that discards the body and counts its bytes.
type sink struct {
	header http.Header
	status int
	bytes  int
}

func (s *sink) Header() http.Header  { return s.header }
func (s *sink) WriteHeader(code int) { s.status = code }
func (s *sink) Write(p []byte) (int, error) {
	s.bytes += len(p)
	return len(p), nil
}

// allocated returns the bytes that are allocated while a request is answered, which is more than the peak
// of memory in use.
func allocated(t *testing.T, srv http.Handler, r *http.Request) (bytes uint64, out *sink) {
	t.Helper()

	out = &sink{header: http.Header{}, status: http.StatusOK}

	var before, after runtime.MemStats

	runtime.GC()
	runtime.ReadMemStats(&before)
	srv.ServeHTTP(out, r)
	runtime.ReadMemStats(&after)

	return after.TotalAlloc - before.TotalAlloc, out
}

// Each route that reads a body stays within its memory limit for the largest requests, which docs/edge.md states.
func TestMemoryOfRequests(t *testing.T) {
	srv, err := envserver.New(envserver.Options{
		Rollouts: newFake(),
		Resolve:  catalog.New(func(string) string { return "" }, egress.Policy{}).Resolve,
		Seal:     strings.ToUpper,
		Web:      true,
	})
	require.NoError(t, err)
	// the largest body
	const most = 16 << 20

	inside := map[string][2]string{
		"/rollouts":         {`{"instruction":"x","setup":`, `}`},
		"/rollouts/r/abort": {`{"reason":"x","more":`, `}`},
		"/reset":            {`{"episode_id":`, `}`},
		"/step":             {`{"action":{"type":"call_tool","tool_name":"start_rollout","arguments":{"setup":`, `}}}`},
		"/mcp": {
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_rollout","arguments":{"setup":`,
			`}}}`,
		},
		"/mcp (MCP)": {
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_rollout","arguments":{"setup":`,
			`}}}`,
		},
		"/web/reset": {`{"episode_id":`, `}`},
		"/web/step":  {`{"action":{"type":"call_tool","tool_name":"start_rollout","arguments":{"setup":`, `}}}`},
	}
	values := map[string]func(room int) string{
		"8 million numbers": func(room int) string { return "[" + strings.Repeat("1,", room/2-2) + "1]" },
		"99,000 numbers":    func(int) string { return "[" + strings.Repeat("1,", 99_000) + "1]" },
		"99,000 names":      func(int) string { return object99k },
		"one text":          func(room int) string { return `["` + strings.Repeat("x", room-4) + `"]` },
		"one escaped text":  func(room int) string { return `["` + strings.Repeat(`\u0001`, room/6-2) + `"]` },
		"one name":          func(room int) string { return `{"` + strings.Repeat("x", room-6) + `":1}` },
		"deep lists":        func(room int) string { return strings.Repeat("[", room) },
	}

	for path, around := range inside {
		worst, which := uint64(0), ""

		for name, value := range values {
			body := around[0] + value(most-len(around[0])-len(around[1])) + around[1]
			require.LessOrEqual(t, len(body), most)

			r := httptest.NewRequest(
				http.MethodPost,
				"http://localhost"+strings.TrimSuffix(path, " (MCP)"),
				strings.NewReader(body),
			)
			if strings.HasSuffix(path, " (MCP)") {
				r.Header.Set("Accept", "application/json, text/event-stream")
				r.Header.Set("Content-Type", "application/json")
			}

			took, out := allocated(t, srv, r)
			require.Less(t, out.bytes, 64<<10, "the answer to %s of %s", name, path)

			if took > worst {
				worst, which = took, name
			}
		}

		t.Logf("POST %-20s %3d MiB (%s)", path, worst>>20, which)
		require.Less(t, worst, uint64(96<<20), path)
	}
}

// A route streams a result from the store to the client. A tool, whose reply contains the result three
// times, holds it once.
func TestMemoryOfResults(t *testing.T) {
	f := newFake()
	srv, err := envserver.New(envserver.Options{
		Rollouts: f, Resolve: catalog.New(onlyVLLM, egress.Policy{}).Resolve, Seal: strings.ToUpper, Web: true,
	})
	require.NoError(t, err)

	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_rollout","arguments":{"instruction":"x","endpoint":"vllm","rollout_id":"r"}}}`
	srv.ServeHTTP(
		&sink{header: http.Header{}},
		httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body)),
	)

	const size = 64 << 20

	f.left = `{"proxy_turns":"` + strings.Repeat("x", size) + `"}`

	for _, path := range []string{"", "/result", "/trace", "/logs/agent", "/logs/proxy"} {
		took, out := allocated(t, srv, httptest.NewRequest(http.MethodGet, "http://localhost/rollouts/r"+path, nil))
		require.Equal(t, http.StatusOK, out.status, path)
		t.Logf("GET  /rollouts/{id}%-12s %8.1f KiB for an answer of %d MiB", path, float64(took)/1024, out.bytes>>20)
		require.Less(t, took, uint64(1<<20), path)
	}

	for path, body := range map[string]string{
		"/mcp":      body,
		"/step":     `{"action":{"tool_name":"run_rollout","arguments":{"instruction":"x","endpoint":"vllm","rollout_id":"r"}}}`,
		"/web/step": `{"action":{"tool_name":"run_rollout","arguments":{"instruction":"x","endpoint":"vllm","rollout_id":"r"}}}`,
	} {
		// frees the value of the last iteration
		runtime.GC()

		took, out := allocated(
			t,
			srv,
			httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body)),
		)
		require.Greater(t, out.bytes, 2*size, "the text and its copy in structured content")
		t.Logf("POST %-20s %d MiB for an answer of %d MiB", path, took>>20, out.bytes>>20)
		require.Less(t, took, uint64(8*size), path)
	}
}

// zeros returns a reader of n zero bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// An upload is streamed to the store.
func TestMemoryOfUploads(t *testing.T) {
	srv, err := envserver.New(envserver.Options{
		Rollouts: newFake(),
		Resolve:  catalog.New(func(string) string { return "" }, egress.Policy{}).Resolve,
		Seal:     strings.ToUpper,
		Uploads:  uploadsIn(t),
	})
	require.NoError(t, err)

	const size = 64 << 20

	sum := sha256.New()
	_, err = io.Copy(sum, zeros(size))
	require.NoError(t, err)
	took, out := allocated(
		t,
		srv,
		httptest.NewRequest(http.MethodPut, "http://localhost/uploads/"+hex.EncodeToString(sum.Sum(nil)), zeros(size)),
	)
	require.Equal(t, http.StatusOK, out.status)
	t.Logf("PUT %.1f KiB for a file of %d MiB", float64(took)/1024, size>>20)
	require.Less(t, took, uint64(2<<20))

	r := httptest.NewRequest(http.MethodPut, "http://localhost/uploads/"+strings.Repeat("0", 64), bytes.NewReader(nil))
	r.ContentLength = rollout.MaxUploadBytes + 1
	_, out = allocated(t, srv, r)
	require.Equal(t, http.StatusRequestEntityTooLarge, out.status)
}

var object99k = func() string {
	var b strings.Builder
	b.WriteByte('{')

	for n := range 49_000 {
		fmt.Fprintf(&b, `"%s%d":1,`, strings.Repeat("k", 100), n)
	}

	return b.String() + `"x":1}`
}()
