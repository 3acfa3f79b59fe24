package bench_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// server is a process that is measured.
type server struct {
	name, address string
	pid           int
}

// run starts a server and waits until it answers. The server ends with the test.
func run(t *testing.T, name string, cmd *exec.Cmd, port int) *server {
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })

	s := &server{name: name, address: fmt.Sprintf("127.0.0.1:%d", port), pid: cmd.Process.Pid}

	require.Eventually(t, func() bool {
		resp, err := http.Get("http://" + s.address + "/health")
		if err == nil {
			_ = resp.Body.Close()
		}

		return err == nil
	}, patience, 50*time.Millisecond)

	return s
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer l.Close()

	return l.Addr().(*net.TCPAddr).Port
}

// cpu returns the user and system time of all threads of the process, including those that have ended. It
// reads the CPU clock of the process, whose id the kernel derives from the pid (clock_getcpuclockid(3)).
func (s *server) cpu(t *testing.T) time.Duration {
	// CPUCLOCK_SCHED
	const scheduled = 2

	var ts unix.Timespec
	require.NoError(t, unix.ClockGettime(int32(^s.pid<<3|scheduled), &ts))

	return time.Duration(ts.Nano())
}

// memory is the process's resident set, in bytes.
func (s *server) memory(t *testing.T) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	require.NoError(t, err)

	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			require.NoError(t, err)

			return kib << 10
		}
	}

	require.Fail(t, "no VmRSS")

	return 0
}

// insides is what one of our servers reports about itself after a garbage collection.
type insides struct {
	Sessions, Goroutines int

	// bytes
	Heap, Stacks int64
}

func (s *server) insides(t *testing.T) (in insides) {
	resp, err := http.Get("http://" + s.address + insidesPath)
	require.NoError(t, err)

	defer resp.Body.Close()

	require.NoError(t, json.NewDecoder(resp.Body).Decode(&in))

	return in
}
