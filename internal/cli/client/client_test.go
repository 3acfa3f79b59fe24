package client_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// seen is the request that a server received.
type seen struct{ path, auth, body string }

func serve(t *testing.T, status int, body string, ask *seen) *client.Client {
	t.Helper()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ask != nil {
			// a partial body fails the comparison below
			text, _ := io.ReadAll(r.Body)
			*ask = seen{r.URL.Path, r.Header.Get("Authorization"), string(text)}
		}

		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)

	return &client.Client{URL: srv.URL + "/", Token: "secret", HTTP: srv.Client()}
}

func TestCallSpeaksJSONRPC(t *testing.T) {
	t.Parallel()

	var ask seen

	c := serve(
		t,
		200,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"aborted\":true}"}],"is_error":false}}`,
		&ask,
	)
	got, err := c.Abort(t.Context(), "r1")
	require.NoError(t, err)
	require.True(t, got.Aborted)
	require.Equal(t, seen{
		"/mcp",
		"Bearer secret",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"abort_rollout","arguments":{"rollout_id":"r1"}}}`,
	}, ask)
}

func TestFailuresHaveKinds(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		status int
		body   string
		kind   fault.Kind
		text   string
	}{
		{200, `{"error":{"code":-32602,"message":"agent_timeout_s: must be seconds"}}`, fault.Invalid, "agent_timeout_s"},
		{200, `{"error":{"code":-32000,"message":"full"}}`, fault.Exhausted, "full"},
		{200, `{"error":{"code":-32001,"message":"no"}}`, fault.Unauthorized, "no"},
		{200, `{"error":{"code":-32603,"message":"bug"}}`, fault.Internal, "bug"},
		{200, `{"error":{"code":-32603,"message":"Temporal is away","data":{"kind":"Unavailable"}}}`, fault.Unavailable, "Temporal is away"},
		{200, `{"error":{"code":-32000,"message":"full","data":{"active_sessions":3,"kind":"new"}}}`, fault.Exhausted, "full"},
		{200, `{"error":{"code":-32602,"message":"no","data":["a"]}}`, fault.Invalid, "no"},
		{200, `{"result":{"content":[{"type":"text","text":"broke"}],"is_error":true}}`, fault.Internal, "broke"},
		{200, `{"result":{"content":[]}}`, fault.Unavailable, "no rolloutd server"},
		{200, `<html>`, fault.Unavailable, "no rolloutd server"},
		{200, `{"result":{"content":[{"type":"text","text":"plain"}]}}`, fault.Internal, "decode result of"},
		{401, `{}`, fault.Unauthorized, "bearer token"},
		{403, `{"detail":"an operator's token is needed"}`, fault.Unauthorized, "an operator's token is needed"},
		{404, `nope`, fault.Unavailable, "it answered 404 Not Found to POST /mcp"},
		{404, `{"detail":"Not Found"}`, fault.Unavailable, "no rolloutd server at http://127.0.0.1"},
		{413, `too much`, fault.Invalid, "413 Request Entity Too Large: too much"},
		{503, `{"detail":"Temporal is away","kind":"Unavailable"}`, fault.Unavailable, "503 Service Unavailable: Temporal is away"},
		{422, `{"detail":"status: must be running or done","kind":"Invalid"}`, fault.Invalid, "status: must be running or done"},
		{503, `later`, fault.Unavailable, "later"},
	} {
		_, err := serve(t, c.status, c.body, nil).State(t.Context(), "r")
		require.ErrorContains(t, err, c.text)
		require.Equal(t, c.kind, fault.KindOf(err), c.body)
	}
}

// An error has the server's message without the JSON around it. The error for an invalid address names the problem.
func TestRefusalsAreReadable(t *testing.T) {
	t.Parallel()
	err := serve(
		t,
		404,
		`{"detail":"no rollout \"x\"","kind":"NotFound"}`,
		nil,
	).Trace(t.Context(), "x", "jsonl", io.Discard)
	require.EqualError(t, err, `no rollout "x"`)

	for _, url := range []string{"127.0.0.1:8000", "", "http://", "http:///rollouts", "ftp://a", "http://a b"} {
		_, err = (&client.Client{URL: url, HTTP: http.DefaultClient}).State(t.Context(), "r")
		require.ErrorContains(t, err, fmt.Sprintf("must be http://HOST:PORT or https://HOST:PORT, got %q", url))
		require.Equal(t, fault.Invalid, fault.KindOf(err))
	}
}

func TestMissingServerIsUnavailable(t *testing.T) {
	t.Parallel()

	c := &client.Client{URL: "http://127.0.0.1:1", HTTP: http.DefaultClient}
	_, err := c.State(t.Context(), "r")
	require.True(t, fault.Is(err, fault.Unavailable))
	require.ErrorContains(
		t,
		err,
		"no rolloutd server at http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused",
	)
}
