package pyclient

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// AtroposServer is a running trainer API.
type AtroposServer struct {
	URL string

	// of the process
	Pid  int
	stop func()
}

// bound is longer than a slow machine takes to load the package.
const bound = 5 * time.Minute

var listening = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// StartAtropos runs a server on a free port until the test ends. Without python3 the test is skipped, but not on CI.
func StartAtropos(t *testing.T) *AtroposServer { return StartAtroposAt(t, "127.0.0.1:0") }

// StartAtroposAt runs a server on an address, which is that of one that was stopped.
func StartAtroposAt(t *testing.T, address string) *AtroposServer {
	t.Helper()
	python := Interpreter(t, Atropos())
	host, port, _ := strings.Cut(address, ":")
	cmd := exec.CommandContext(
		t.Context(),
		python.Path(),
		"-m",
		"uvicorn",
		"atroposlib.api.server:app",
		"--host",
		host,
		"--port",
		port,
	)
	out, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	ended := make(chan struct{})
	found := make(chan string, 1)

	go func() {
		defer close(ended)

		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if url := listening.FindString(lines.Text()); url != "" {
				found <- url
				break
			}
		}
		// until the process ends
		_, _ = io.Copy(io.Discard, out)
		// it is killed
		_ = cmd.Wait()
	}()
	// an error says that it has ended
	s := &AtroposServer{Pid: cmd.Process.Pid, stop: func() { _ = cmd.Process.Kill(); <-ended }}
	t.Cleanup(s.stop)

	select {
	case s.URL = <-found:
	case <-ended:
		t.Fatal("Atropos' trainer API ended at its start")
	case <-time.After(bound):
		t.Fatal("Atropos' trainer API does not listen")
	}

	return s
}

// Stop kills the server.
func (s *AtroposServer) Stop() { s.stop() }

// DoRequest sends a request with a JSON body and returns the answer.
func DoRequest(t *testing.T, method, url, body string, header ...string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)

	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}

	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}

	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)

	return resp.StatusCode, string(text)
}
