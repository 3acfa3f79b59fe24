package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// process is a gateway in its own process.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
	admin string
}

func startProcess(t *testing.T, dir string) *process {
	t.Helper()
	// ended by kill, or by itself when the test ends
	cmd := exec.Command(os.Args[0])

	cmd.Env = append(os.Environ(), childFolder+"="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	p.admin = p.read(t, "admin")

	return p
}

// read returns the next address that the process prints.
func (p *process) read(t *testing.T, what string) string {
	t.Helper()
	require.True(t, p.lines.Scan(), "the gateway ended")
	name, url, _ := strings.Cut(p.lines.Text(), " ")
	require.Equal(t, what, name)

	return url
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.stdin.Close()
}

// A gateway killed at any moment of a call loses and repeats nothing: a repeated call gets a complete
// reply, and the trace has exactly one complete turn for each call.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()

	const calls = 12

	dir := t.TempDir()
	key, err := seal.LoadOrCreate(dir + "/key")
	require.NoError(t, err)
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		for _, part := range strings.SplitAfter(goodReply, "\n\n") {
			says(part)(w, r)
			_ = http.NewResponseController(w).Flush()
			// as long as a token, so that kills fall inside replies
			time.Sleep(2 * time.Millisecond)
		}
	})

	p := startProcess(t, dir)
	defer func() { p.kill() }()

	client := gatewayapi.NewClient(p.admin, key)
	require.NoError(t, client.Open(t.Context(), gatewayapi.Route{
		ID: "r1.1", SandboxID: "r1.1", Capture: true, Limits: rollout.Limits{Call: patience},
		Model: rollout.Model{BaseURL: e.URL + "/v1", Name: "m", SealedKey: key.Box("model key").SealString(canary)},
	}))
	url := p.read(t, "r1.1")

	for i := range calls {
		id := fmt.Sprint("call-", i)
		ctx, cancel := context.WithCancel(t.Context())

		got, at := make(chan reply, 1), url
		go func() { got <- send(ctx, at, id, streamed) }()
		// each call is interrupted a little later than the previous one
		select {
		case <-got:
		case <-time.After(time.Duration(i) * 3 * time.Millisecond):
		}

		p.kill()
		cancel()

		p = startProcess(t, dir)
		url = p.read(t, "r1.1")
		again := send(t.Context(), url, id, streamed)
		require.NoError(t, again.err)
		require.Equal(t, goodReply, again.body)
	}

	h := &host{client: gatewayapi.NewClient(p.admin, key)}
	whole := map[string]int{}

	for _, turn := range h.turns(t, "r1.1") {
		if turn.Broken == "" {
			whole[turn.CallID]++
			require.True(t, turn.Delivered)
		}
	}

	require.Len(t, whole, calls)

	for id, n := range whole {
		require.Equal(t, 1, n, id)
	}

	require.Equal(t, calls, h.status(t, "r1.1").Turns)
}
