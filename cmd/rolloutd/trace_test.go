package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTraceGoesToOutputOrAFile(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/rollouts/cut/trace":
			_, _ = w.Write([]byte("half"))

			panic(http.ErrAbortHandler)
		case r.URL.Query().Get("format") == "parquet":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"detail":"want jsonl or npz"}`))
		default:
			_, _ = w.Write([]byte(r.URL.String()))
		}
	}))
	t.Cleanup(srv.Close)
	env := map[string]string{"ROLLOUTD_TOKEN": "secret", "ROLLOUTD_SERVER": srv.URL}
	code, out, errText := rolloutd(t.Context(), env, "trace", "r1")
	require.Zero(t, code, errText)
	require.Equal(t, "/rollouts/r1/trace?format=jsonl", out)

	for _, args := range [][]string{{"export", "r1"}, {"export", "--group", "g1"}} {
		code, out, errText = rolloutd(t.Context(), env, args...)
		require.Zero(t, code, errText)
		require.Contains(t, []string{"/rollouts/r1/page?", "/groups/g1/page?"}, out)
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "r1.npz")
	code, out, errText = rolloutd(t.Context(), env, "trace", "r1", "--format", "npz", "-o", file)
	require.Zero(t, code, errText)
	require.Empty(t, out)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "/rollouts/r1/trace?format=npz", string(text))

	for _, args := range [][]string{{"cut"}, {"r1", "--format", "parquet"}, {"r1", "--server", "http://127.0.0.1:1"}} {
		code, _, errText = rolloutd(t.Context(), env, append([]string{"trace", "-o", file}, args...)...)
		require.NotZero(t, code, args)
		require.NotEmpty(t, errText)

		after, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text, after, "a trace that did not come whole replaces none")
	}

	require.Contains(t, errText, "rolloutd-dev")

	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// Binary output is not written to a terminal. The command fails before it sends a request: there is no server.
func TestNpzIsNotWrittenToATerminal(t *testing.T) {
	t.Parallel()

	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = pty.Close() })

	var errText bytes.Buffer
	require.Equal(
		t,
		1,
		run(t.Context(), []string{"trace", "r1", "--format", "npz"}, std{pty, &errText, map[string]string{}}),
	)
	require.Contains(t, errText.String(), "--output: must be set for npz")
}
