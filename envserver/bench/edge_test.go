package bench_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/pyclient"
)

const (
	patience = 5 * time.Minute
	state    = `{"type":"state"}`
	list     = `{"type":"step","data":{"type":"list_tools"}}`
)

// numbers of one server.
type numbers struct {
	name       string
	sessions   int
	perSession float64 // bytes
	state      time.Duration
	list       time.Duration
}

// TestEdge holds idle sessions on both servers, one server after the other, and takes CPU time and memory from /proc. The reference
// holds fewer unless told otherwise: 10,000 took it longer than anybody waits.
func TestEdge(t *testing.T) {
	if os.Getenv("ROLLOUTD_BENCH_EDGE") == "" {
		t.Skip("takes minutes: set ROLLOUTD_BENCH_EDGE=1")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	python := pyclient.Interpreter(t, pyclient.Releases()[0])

	port := freePort(t)
	ours := exec.CommandContext(t.Context(), self)
	ours.Env = append(os.Environ(), fmt.Sprintf("%s=127.0.0.1:%d", serveVariable, port))
	us := measure(t, "rolloutd", ours, port, count(t, "ROLLOUTD_BENCH_SESSIONS", 10_000), 20_000, dropped)

	port = freePort(t)
	theirs := exec.CommandContext(t.Context(), python.Path(), "testdata/reference.py", strconv.Itoa(port))
	theirs.Env = append(os.Environ(), "PYTHONWARNINGS=ignore")
	them := measure(t, "reference", theirs, port, count(t, "ROLLOUTD_BENCH_REFERENCE_SESSIONS", 1_000), 1_000, nil)
	for _, n := range []numbers{us, them} {
		t.Logf("%-9s  %6d idle sessions  %8.1f KiB each  CPU per state %9s  CPU per list_tools %9s",
			n.name, n.sessions, n.perSession/1024, n.state, n.list)
	}
	t.Logf("ratio      memory %.1f  state %.1f  list_tools %.1f", them.perSession/us.perSession,
		float64(them.state)/float64(us.state), float64(them.list)/float64(us.list))
}

func count(t *testing.T, name string, fallback int) int {
	if os.Getenv(name) == "" {
		return fallback
	}
	n, err := strconv.Atoi(os.Getenv(name))
	require.NoError(t, err)
	return n
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// measure runs the server, holds sessions on it and takes the numbers.
func measure(t *testing.T, name string, cmd *exec.Cmd, port, sessions, calls int, after func(t *testing.T, url string, pid, sessions int)) numbers {
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	url := fmt.Sprintf("127.0.0.1:%d", port)
	require.Eventually(t, func() bool {
		resp, err := http.Get("http://" + url + "/health")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	}, patience, 50*time.Millisecond)
	n := numbers{name: name, sessions: sessions}
	pid := cmd.Process.Pid

	one := dial(t, url)
	ask(t, one, list, 100) // what is made once is made
	n.state, n.list = cpuOf(t, pid, one, state, calls), cpuOf(t, pid, one, list, calls)
	before := memory(t, pid)
	var held []*websocket.Conn
	for range sessions {
		held = append(held, dial(t, url))
	}
	ask(t, held[sessions-1], state, 1) // the last one is there
	n.perSession = float64(memory(t, pid)-before) / float64(sessions)
	ask(t, held[sessions/2], state, 1)
	for _, c := range held {
		_ = c.NetConn().Close()
	}
	_ = one.Close()
	if after != nil {
		after(t, url, pid, sessions)
	}
	return n
}

// dropped opens and drops as many connections again, without a goodbye, and holds the server to having no session left.
func dropped(t *testing.T, url string, pid, sessions int) {
	gone := func() bool { return strings.Contains(metrics(t, url), "\nrolloutd_envserver_sessions 0\n") }
	require.Eventually(t, gone, patience, 100*time.Millisecond)
	before := memory(t, pid)
	for range sessions {
		_ = dial(t, url).NetConn().Close()
	}
	require.Eventually(t, gone, patience, 100*time.Millisecond)
	t.Logf("%d connections opened and dropped: 0 sessions left, resident %d MiB before, %d MiB after", sessions, before>>20, memory(t, pid)>>20)
}

func metrics(t *testing.T, url string) string {
	resp, err := http.Get("http://" + url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(raw)
}

func dial(t *testing.T, url string) *websocket.Conn {
	d := websocket.Dialer{HandshakeTimeout: patience, ReadBufferSize: 512, WriteBufferSize: 512}
	c, resp, err := d.DialContext(t.Context(), "ws://"+url+"/ws", nil)
	require.NoError(t, err)
	_ = resp.Body.Close()
	return c
}

func ask(t *testing.T, c *websocket.Conn, frame string, times int) {
	for range times {
		require.NoError(t, c.WriteMessage(websocket.TextMessage, []byte(frame)))
		_, reply, err := c.ReadMessage()
		require.NoError(t, err)
		require.NotContains(t, string(reply[:min(len(reply), 40)]), `"error"`)
	}
}

// cpuOf is the server's CPU time for one frame.
func cpuOf(t *testing.T, pid int, c *websocket.Conn, frame string, calls int) time.Duration {
	before := cpu(t, pid)
	ask(t, c, frame, calls)
	return (cpu(t, pid) - before) / time.Duration(calls)
}

// cpu is the user and system time of a process; the kernel counts in hundredths of a second.
func cpu(t *testing.T, pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	require.NoError(t, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory is a process's resident set, in bytes.
func memory(t *testing.T, pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
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
