package external_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/tool"
	"github.com/rolloutd/rolloutd/internal/tool/external"
)

const oneTool = `{"tools":[{"type":"function","function":{"name":"skills_list","description":"lists","parameters":{"type":"object","properties":{}}}}]}`

// serve starts a tool server with the given tools and answers.
func serve(t *testing.T, tools string, execute http.HandlerFunc) string {
	t.Helper()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /tools", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tools) })
	mux.HandleFunc("POST /execute", execute)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)

	return srv.URL
}

func replyWith(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// withoutRetries disables waiting for a server that is unavailable.
func withoutRetries() external.Options {
	return external.Options{Name: "s", Patience: time.Nanosecond, Timeout: 2 * time.Minute}
}

func call(name string) tool.Call {
	return tool.Call{ID: "react-1-1-1", Name: name, Arguments: json.RawMessage(`{"a":1}`)}
}

func TestToolServer(t *testing.T) {
	t.Parallel()

	var got map[string]any

	url := serve(t, oneTool, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		// the test detects an empty request
		_ = json.NewDecoder(r.Body).Decode(&got)
		_, _ = io.WriteString(
			w,
			`{"success":true,"output":"three","error":"","metadata":{"n":3},"uniq_id":"r1.1/react-1-1-1"}`,
		)
	})
	o := withoutRetries()
	o.Prefix = "x_"
	s := external.ToolServer(o, url+"/", "secret", nil)
	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []tool.Definition{{
		Name:        "x_skills_list",
		Description: "lists",
		Parameters:  json.RawMessage(`{"type":"object","properties":{}}`),
	}}, list)
	r, err := s.Call(t.Context(), tool.Env{CallScope: "r1.1"}, call("x_skills_list"))
	require.NoError(t, err)
	require.Equal(t, tool.Result{Content: "three", Data: json.RawMessage(`{"n":3}`)}, r)
	require.Equal(t, map[string]any{
		"trajectory_id": "r1.1", "timeout_s": 120.0,
		"tool": map[string]any{
			"name":      "skills_list",
			"arguments": map[string]any{"a": 1.0},
			"uniq_id":   "r1.1/react-1-1-1",
		},
	}, got)
	_, err = external.ToolServer(o, url, "wrong", nil).Call(t.Context(), tool.Env{}, call("x_skills_list"))
	require.True(t, fault.Is(err, fault.Unauthorized), "%v", err)
}

// A failure that depends on the call is a result for the policy. Any other failure is one of the infrastructure.
func TestToolServerMisbehaves(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		execute http.HandlerFunc

		// of a result
		message string
		failure string
	}{
		"the tool fails":      {replyWith(200, `{"success":false,"output":"half","error":"no such skill","metadata":{}}`), "no such skill", ""},
		"without a reason":    {replyWith(200, `{"success":false}`), "the tool failed without a reason", ""},
		"refused arguments":   {replyWith(422, `{"detail":[{"msg":"bad"}]}`), `the tool server refused the call: [{"msg":"bad"}]`, ""},
		"many bytes":          {replyWith(200, `{"success":true,"output":"`+strings.Repeat("x", 9<<20)+`"}`), "the tool's answer is too large: JSON text has more than 8388608 bytes", ""},
		"many elements":       {replyWith(200, `{"success":true,"metadata":[`+strings.Repeat("{},", 200_000)+`{}]}`), "more than 100000 elements", ""},
		"HTML":                {replyWith(200, `<html><title>Sign in</title></html>`), "", "not of the tool server protocol (text/html; charset=utf-8: <html>"},
		"HTML with an error":  {replyWith(502, `<html>bad gateway</html>`), "", "status 502: <html>bad gateway</html>"},
		"another's answer":    {replyWith(200, `{"success":true,"output":"x","uniq_id":"r2.1/react-1-1-1"}`), "", "the answer is of another call"},
		"JSON of another API": {replyWith(200, `{"hello":"world"}`), "", "has no success"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.org/", http.StatusTemporaryRedirect)
		},
			"", "status 307"},
		"infrastructure of a tool": {replyWith(200, `{"success":false,"error":"mcp is down","metadata":{"fault":"Unavailable"}}`), "", "mcp is down"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := external.ToolServer(withoutRetries(), serve(t, oneTool, c.execute), "", nil)

			r, err := s.Call(t.Context(), tool.Env{CallScope: "r1.1"}, call("skills_list"))
			if c.failure != "" {
				require.True(t, fault.Is(err, fault.ToolServerFailed), "%v", err)
				require.ErrorContains(t, err, c.failure)
				require.ErrorContains(t, err, `tool server "s"`)

				return
			}

			require.NoError(t, err)
			require.True(t, r.Error)
			require.Contains(t, r.Message, c.message)
		})
	}
}

func TestLongOutputIsCut(t *testing.T) {
	t.Parallel()
	s := external.ToolServer(
		withoutRetries(),
		serve(t, oneTool, replyWith(200, `{"success":true,"output":"`+strings.Repeat("é", 60_000)+`"}`)),
		"",
		nil,
	)
	r, err := s.Call(t.Context(), tool.Env{}, call("skills_list"))
	require.NoError(t, err)
	require.Contains(t, r.Content, "é\n[... 70000 bytes left out ...]\né")
}

// A call of a tool that never answers ends with a result after its timeout. Other calls continue.
func TestToolServerHangs(t *testing.T) {
	t.Parallel()

	hung := make(chan struct{})

	t.Cleanup(func() { close(hung) })
	url := serve(t, oneTool, func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Tool struct{ Name string } }
		// a call with an empty name does not hang
		_ = json.NewDecoder(r.Body).Decode(&in)
		if in.Tool.Name == "hangs" {
			select {
			case <-hung:
			case <-r.Context().Done():
			}

			return
		}

		_, _ = io.WriteString(w, `{"success":true,"output":"quick"}`)
	})
	o := withoutRetries()
	o.Timeout = 50 * time.Millisecond
	slow := external.ToolServer(o, url, "", nil)
	r, err := slow.Call(t.Context(), tool.Env{}, call("hangs"))
	require.NoError(t, err)
	require.Equal(t, tool.Failed("the tool did not answer within 50ms"), r)

	o.Timeout, o.Concurrency = 0, 2
	s := external.ToolServer(o, url, "", nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)

	go func() {
		_, err := s.Call(ctx, tool.Env{}, call("hangs"))
		ended <- err
	}()

	for range 5 {
		r, err = s.Call(t.Context(), tool.Env{}, call("quick"))
		require.NoError(t, err)
		require.Equal(t, "quick", r.Content)
	}

	cancel()
	require.True(t, fault.Is(<-ended, fault.Unavailable))
}

// A call is repeated with the same id until the server is available again.
func TestToolServerRecovers(t *testing.T) {
	t.Parallel()

	var calls atomic.Int32

	url := serve(t, oneTool, func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}

		_, _ = io.WriteString(w, `{"success":true,"output":"back"}`)
	})
	r, err := external.ToolServer(external.Options{
		Name:     "s",
		Patience: 10 * time.Minute,
	}, url, "", nil).Call(t.Context(), tool.Env{}, call("skills_list"))
	require.NoError(t, err)
	require.Equal(t, "back", r.Content)
	require.EqualValues(t, 3, calls.Load())
}

func TestCallsAtOnceAreBounded(t *testing.T) {
	t.Parallel()

	var now, most atomic.Int32

	url := serve(t, oneTool, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)

		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}

		_, _ = io.WriteString(w, `{"success":true}`)
	})
	s := external.ToolServer(external.Options{Name: "s", Concurrency: 3}, url, "", nil)

	errs := make(chan error, 40)
	for range cap(errs) {
		go func() {
			_, err := s.Call(t.Context(), tool.Env{}, call("skills_list"))
			errs <- err
		}()
	}

	for range cap(errs) {
		require.NoError(t, <-errs)
	}

	require.LessOrEqual(t, most.Load(), int32(3))
}

// Invalid tools are omitted. A list that cannot be parsed is a failure.
func TestBadLists(t *testing.T) {
	t.Parallel()

	var all []string
	for _, f := range []string{
		`"name":"good","parameters":{"type":"object"}`, `"name":"bad name","parameters":{"type":"object"}`, `"name":"array","parameters":{"type":"array"}`,
		`"name":"none"`, `"name":"remote","parameters":{"type":"object","$ref":"http://127.0.0.1/x"}`, `"name":"kind","parameters":{"type":"object","properties":[]}`,
		`"name":"long","parameters":{"type":"object"},"description":"` + strings.Repeat("x", 40<<10) + `"`,
	} {
		all = append(all, `{"type":"function","function":{`+f+`}}`)
	}

	s := external.ToolServer(
		withoutRetries(),
		serve(t, `{"tools":[`+strings.Join(all, ",")+`]}`, replyWith(404, "")),
		"",
		nil,
	)
	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "good", list[0].Name)

	for _, text := range []string{`<html>`, `{}`, `{"tools":5}`, strings.Repeat("[", 100), ``} {
		_, err := external.ToolServer(withoutRetries(), serve(t, text, replyWith(404, "")), "", nil).List(t.Context())
		require.True(t, fault.Is(err, fault.Unavailable), "%q: %v", text, err)
		require.ErrorContains(t, err, `list the tools of server "s"`)
	}

	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf(`{"function":{"name":"t%d","parameters":{"type":"object"}}}`, i)
	}

	list, err = external.ToolServer(withoutRetries(), serve(t, `{"tools":[`+strings.Join(many, ",")+`]}`, replyWith(404, "")), "", nil).
		List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 256)
}
