package gateway_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// The key is sent upstream in one header and appears nowhere else: not in files, logs, replies or traces,
// even if the upstream echoes it.
func TestKeyIsSentUpstreamOnly(t *testing.T) {
	t.Parallel()

	var logs bytes.Buffer

	h := newHost(t, func(o *gateway.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	echo := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			answers(status, fmt.Sprintf(`{"error":{"message":"bad key %s"}}`, r.Header.Get("Authorization")))(w, r)
		}
	}
	// an error inside a reply; its text is truncated within the key
	within := func(kind string) http.HandlerFunc {
		return says(
			`data: {"error":{"message":"` + strings.Repeat("x", 990) + canary + `","type":"` + kind + `"}}` + "\n\n",
		)
	}
	e := newEngine(
		t,
		echo(500),
		says(strings.Replace(goodReply, "Hel", canary, 2)),
		echo(400),
		within("x"),
		within("invalid_request_error"),
		says("data: "+canary+"\n\n"),
		echo(401),
	)
	url := h.open(t, h.route(e.URL))

	var seen strings.Builder

	for range 4 {
		got := send(t.Context(), url, "", streamed, "X-Session-Id", "s")
		require.NoError(t, got.err)
		seen.WriteString(got.body)
		fmt.Fprint(&seen, got.header)
	}

	for _, turn := range h.turns(t, "r1.1") {
		fmt.Fprintf(&seen, "%+v", turn)
		fmt.Fprintf(&seen, "%s %s %s", turn.Request, turn.Response, turn.UpstreamError)
	}

	fmt.Fprintf(&seen, "%+v %+v", h.status(t, "r1.1"), h.status(t, "r1.1").Failure)
	require.Contains(t, seen.String(), "[redacted]")
	h.stop()
	seen.WriteString(logs.String())
	require.NoError(t, filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		b, err := os.ReadFile(path)
		seen.Write(b)

		return err
	}))
	require.NotContains(t, seen.String(), canary[:9])

	require.Len(t, e.requests(), 7)

	for _, r := range e.requests() {
		require.Equal(t, "Bearer "+canary, r.header.Get("Authorization"))
		require.Equal(t, "s", r.header.Get("X-Session-Id"), "for routers that keep a session on one engine")
		require.NotContains(t, r.body, canary)

		for name, values := range r.header {
			require.True(t, name == "Authorization" || !strings.Contains(strings.Join(values, ""), canary), name)
		}
	}
}
