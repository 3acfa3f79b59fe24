package main_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// build builds the static binary, as in a release.
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
		{"serve", "--control-fd", "99"}, {"stage"}, {"attach"}, {"attach", "--framed", "soon", "x"}, {"enclose"},
	} {
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		require.Error(t, err, "%q", args)
		require.Contains(t, string(out), "sandboxd: ", "%q", args)
	}

	out, err := exec.CommandContext(t.Context(), binary, "version").Output()
	require.NoError(t, err)
	require.NotEmpty(t, strings.TrimSpace(string(out)))
}

// No signal but SIGKILL and SIGSTOP ends or stops sandboxd, even if it is not pid 1.
func TestSignalsAreIgnored(t *testing.T) {
	t.Parallel()
	cmd, client := serveOnAPath(t)

	for n := syscall.Signal(1); n <= 64; n++ {
		if n == syscall.SIGKILL || n == syscall.SIGSTOP {
			continue
		}

		require.NoError(t, cmd.Process.Signal(n))
		require.Equal(t, http.StatusOK, request(client, "GET", "/v1/info", ""), "after signal %d", n)
	}
}

// sandboxd also serves on a path outside of a sandbox. When its lease expires it ends, together with its processes.
func TestServeOnAPath(t *testing.T) {
	t.Parallel()
	cmd, client := serveOnAPath(t)
	process := `{"argv":["sleep","infinity"],"dir":"/","env":{"PATH":"/usr/bin:/bin"}}`
	require.Equal(t, http.StatusOK, request(client, "PUT", "/v1/processes/p", process))
	require.Equal(t, http.StatusNoContent, request(client, "POST", "/v1/kill-all", ""))
	require.Equal(t, http.StatusNoContent, request(client, "POST", "/v1/lease", `{"ttl_ms":1}`))

	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 3, exit.ExitCode())
}

// An attach process that carries a connection in frames ends when its client is silent, even if its stdin
// stays open. If sandboxd does not run, the exit status is different.
func TestAttachInFrames(t *testing.T) {
	t.Parallel()
	binary, socket := build(t), filepath.Join(t.TempDir(), "s")
	silent := func() (int, string) {
		in, keepOpen, err := os.Pipe()
		require.NoError(t, err)

		defer keepOpen.Close()
		defer in.Close()

		cmd := exec.CommandContext(t.Context(), binary, "attach", "--framed", "50ms", socket)
		cmd.Stdin = in
		out, err := cmd.CombinedOutput()

		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)

		return exit.ExitCode(), string(out)
	}
	status, said := silent()
	require.Equal(t, 4, status, said)

	l, err := net.Listen("unix", socket)
	require.NoError(t, err)

	defer l.Close()

	status, said = silent()
	require.Equal(t, 1, status)
	require.Equal(t, "+sandboxd: attach: no frame came in time\n", said)

	cmd := exec.CommandContext(t.Context(), binary, "attach", "--framed", "1h", socket)
	cmd.Stdin = strings.NewReader("\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x01c\xff\xff\xff\xff")
	require.NoError(t, cmd.Start())
	// the connection of the silent client
	_, err = l.Accept()
	require.NoError(t, err)
	conn, err := l.Accept()
	require.NoError(t, err)
	data, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "abc", string(data))
	require.NoError(t, cmd.Wait())
}

// serveOnAPath starts sandboxd outside of a sandbox and waits until it answers.
func serveOnAPath(t *testing.T) (*exec.Cmd, *http.Client) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.CommandContext(
		t.Context(),
		build(t),
		"serve",
		"--control-path",
		socket,
		"--model-addr",
		"127.0.0.1:0",
		"--id",
		"x",
		"--lease",
		"1h",
	)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	client := clientOf(socket)

	require.Eventually(
		t,
		func() bool { return request(client, "GET", "/v1/info", "") == http.StatusOK },
		5*time.Minute,
		time.Millisecond,
	)

	return cmd, client
}

func clientOf(socket string) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
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
