package main_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// build makes the binary as it is shipped: static.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sandboxd")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	binary := build(t)
	for _, args := range [][]string{
		{}, {"nonsense"}, {"serve"}, {"serve", "--control-fd", "3", "--control-path", "x"}, {"serve", "--lease", "soon"}, {"probe"},
		{"serve", "--control-fd", "99"}, {"stage"},
	} {
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		require.Error(t, err, "%q", args)
		require.Contains(t, string(out), "sandboxd: ", "%q", args)
	}
	out, err := exec.CommandContext(t.Context(), binary, "version").Output()
	require.NoError(t, err)
	require.NotEmpty(t, strings.TrimSpace(string(out)))
}

// Outside of a sandbox, on a path, it serves as well; with a lease it ends by itself, and takes its processes along.
func TestServeOnAPath(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.CommandContext(t.Context(), build(t), "serve", "--control-path", socket, "--model-addr", "127.0.0.1:0", "--id", "x", "--lease", "1h")
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	require.Eventually(t, func() bool { return request(client, "GET", "/v1/info", "") == http.StatusOK }, 5*time.Minute, time.Millisecond)
	process := `{"argv":["sleep","infinity"],"dir":"/","env":{"PATH":"/usr/bin:/bin"}}`
	require.Equal(t, http.StatusOK, request(client, "PUT", "/v1/processes/p", process))
	require.Equal(t, http.StatusNoContent, request(client, "POST", "/v1/kill-all", ""))
	require.Equal(t, http.StatusNoContent, request(client, "POST", "/v1/lease", `{"ttl_ms":1}`))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 3, exit.ExitCode())
}

func request(client *http.Client, method, path, body string) int {
	req, err := http.NewRequest(method, "http://sandboxd"+path, strings.NewReader(body))
	if err != nil {
		return 0
	}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}
