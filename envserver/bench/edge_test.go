package bench_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// patience bounds waits that only a broken server makes long.
const patience = 5 * time.Minute

// TestEdge measures three servers in turn under the same load: rolloutd, the reference server, and a server
// that only echoes. The echo server shows the cost of the kernel and of the WebSocket library.
func TestEdge(t *testing.T) {
	if os.Getenv("ROLLOUTD_BENCH_EDGE") == "" {
		t.Skip("takes minutes: set ROLLOUTD_BENCH_EDGE=1")
	}

	ours, echo, theirs := startOwn(t, "rolloutd", serveEdge), startOwn(t, "echo", serveEcho), startReference(t)

	all := []*server{ours, theirs, echo}
	for _, w := range []work{{"state, one at a time", state, 1}, {"state, 32 at once", state, 32},
		{"list_tools, one at a time", list, 1}, {"list_tools, 32 at once", list, 32}} {
		steps(t, w, all)
	}

	t.Logf("idle sessions, resident memory of the process:")

	for _, s := range all {
		n := count(t, "ROLLOUTD_BENCH_SESSIONS", 10_000)
		// 10,000 take the reference server too long
		if s == theirs {
			n = count(t, "ROLLOUTD_BENCH_REFERENCE_SESSIONS", 1_000)
		}

		fresh, used := s.idle(t, n)
		t.Logf("  %-9s %6d sessions  %6.1f KiB each, %6.1f KiB after a step in each", s.name, n, fresh/1024, used/1024)
	}
}

// TestDropped drops connections in every way that drop has, and checks that the server has no session, no
// goroutine and no memory left for them.
func TestDropped(t *testing.T) {
	if os.Getenv("ROLLOUTD_BENCH_EDGE") == "" {
		t.Skip("takes minutes: set ROLLOUTD_BENCH_EDGE=1")
	}

	s := startOwn(t, "rolloutd", serveDropped)
	// allocates what the server allocates only once
	s.drop(t, 1_000)
	before := s.insides(t)
	n := count(t, "ROLLOUTD_BENCH_SESSIONS", 10_000)
	s.drop(t, n)
	after := s.insides(t)
	t.Logf(
		"%d connections dropped: sessions %d, goroutines %d → %d, heap %d → %d KiB, stacks %d → %d KiB",
		n,
		after.Sessions,
		before.Goroutines,
		after.Goroutines,
		before.Heap>>10,
		after.Heap>>10,
		before.Stacks>>10,
		after.Stacks>>10,
	)
	require.LessOrEqual(t, after.Goroutines, before.Goroutines+10)
	// The runtime keeps the descriptors of ended goroutines and the memory of emptied maps: about 150 bytes
	// for each connection. A leaked connection takes more than a kilobyte.
	require.Less(t, after.Heap-before.Heap, int64(n)*400)
}

// startOwn runs this test binary as a server.
func startOwn(t *testing.T, name, what string) *server {
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	port := freePort(t)
	cmd.Env = append(os.Environ(), serveVariable+"="+what, addressVariable+"=127.0.0.1:"+strconv.Itoa(port))

	return run(t, name, cmd, port)
}

func startReference(t *testing.T) *server {
	python, port := pyclient.Interpreter(t, pyclient.Releases()[0]), freePort(t)
	cmd := exec.CommandContext(t.Context(), python.Path(), "testdata/reference.py", strconv.Itoa(port))

	return run(t, "reference", cmd, port)
}

func count(t *testing.T, name string, fallback int) int {
	if os.Getenv(name) == "" {
		return fallback
	}

	n, err := strconv.Atoi(os.Getenv(name))
	require.NoError(t, err)

	return n
}

func load(t *testing.T) string {
	raw, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)

	return strings.Join(strings.Fields(string(raw))[:2], " ")
}
