// Package emulator runs servers of buckets for tests, behind listeners that can fail as a network does. It
// is a fixture: only tests import it.
package emulator

import (
	"bytes"
	"context"
	"net/http"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/child"
)

// patience bounds the start of a server.
const patience = 5 * time.Minute

// Process is a program that ends with its test.
type Process struct {
	ended  <-chan struct{}
	output output
}

// Start starts a program. What it printed is shown when the test fails.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()

	p := &Process{}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output

	var err error

	p.ended, err = child.Start(cmd, syscall.SIGKILL)
	require.NoError(t, err)

	t.Cleanup(func() {
		_ = cmd.Process.Kill()

		<-p.ended

		if t.Failed() {
			t.Logf("%s:\n%s", cmd.Path, p.Output())
		}
	})

	return p
}

// Output is what the program has printed so far.
func (p *Process) Output() string { return p.output.String() }

// Answers waits until a GET of the URL has any answer.
func (p *Process) Answers(t testing.TB, url string) {
	t.Helper()
	p.Until(t, func(ctx context.Context) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		require.NoError(t, err)

		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}

		_ = res.Body.Close()

		return true
	})
}

// Until waits until the program is ready, and fails the test when it ends before.
func (p *Process) Until(t testing.TB, ready func(context.Context) bool) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	for !ready(ctx) {
		select {
		case <-p.ended:
			require.FailNow(t, "the server ended at its start")
		case <-ctx.Done():
			require.FailNow(t, "the server does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// output may be written and read at once.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()

	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()

	return o.text.String()
}
