package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/child"
)

// process is one running binary of rolloutd. It is stopped when the test ends.
type process struct {
	cmd  *exec.Cmd
	done <-chan struct{}
	log  string
}

func startProcess(t testing.TB, env []string, name string, arg ...string) *process {
	t.Helper()

	return startBinary(t, env, filepath.Join(bin, name), arg...)
}

func startBinary(t testing.TB, env []string, path string, arg ...string) *process {
	t.Helper()

	name := filepath.Base(path)
	log, err := os.CreateTemp(t.TempDir(), name+"-*.log")
	require.NoError(t, err)

	defer log.Close()

	p := &process{cmd: exec.Command(path, arg...), log: log.Name()}

	p.cmd.Env = append(environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log

	p.done, err = child.Start(p.cmd, syscall.SIGINT)
	require.NoError(t, err)

	t.Cleanup(func() {
		p.stop(t)
		p.requireSoundWorkflows(t)

		if t.Failed() {
			t.Logf("%s %v:\n%s", name, arg, tail(p.log))
		}
	})

	return p
}

// environ returns the test's environment without the ROLLOUTD_ variables. They configure the tests, or a
// rolloutd of the developer.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "ROLLOUTD_") })
}

// stop interrupts the process, as Ctrl-C does. If the process does not end within five minutes, stop kills
// it and fails the test.
func (p *process) stop(t testing.TB) {
	t.Helper()

	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(5 * time.Minute):
		t.Errorf("%s did not end after an interrupt", p.cmd.Path)
		p.kill()
	}
}

// requireSoundWorkflows requires that no workflow has panicked or was nondeterministic. Temporal retries
// such a workflow task, so the workflow may still complete.
func (p *process) requireSoundWorkflows(t testing.TB) {
	t.Helper()

	f, err := os.Open(p.log)
	require.NoError(t, err)

	defer f.Close()

	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)

	for lines.Scan() {
		// the second is Temporal's code for a nondeterministic workflow
		for _, mark := range []string{"Workflow panic", "[TMPRL1100]"} {
			if strings.Contains(lines.Text(), mark) {
				t.Errorf("%s: %s", p.cmd.Path, lines.Text())
			}
		}
	}

	require.NoError(t, lines.Err())
}

// kill sends SIGKILL and waits until the process has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
}

// peakMemory returns the peak of the process's resident memory, as the kernel formats it.
func (p *process) peakMemory(t testing.TB) string {
	t.Helper()

	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(t, err)

	_, after, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)

	peak, _, _ := strings.Cut(after, "\n")

	return strings.TrimSpace(peak)
}

// ready waits until url answers 200. It fails the test if the process ends before.
func (p *process) ready(t testing.TB, url string) {
	t.Helper()

	for late := time.After(5 * time.Minute); !isUp(url); {
		select {
		case <-p.done:
			t.Fatalf("%s died:\n%s", p.cmd.Path, tail(p.log))
		case <-late:
			t.Fatalf("%s does not answer", url)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func isUp(url string) bool {
	client := http.Client{Timeout: time.Minute}

	resp, err := client.Get(url)
	if err != nil {
		return false
	}
	defer resp.Body.Close()

	return resp.StatusCode == http.StatusOK
}

// tail returns the end of a log for a failure message.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()

	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, end-8000), io.SeekStart)
	}

	text, _ := io.ReadAll(f)

	return string(text)
}

// lastPort is the last port that freePorts has returned, so that parallel tests get different ports.
var lastPort atomic.Int32

// freePorts returns n loopback addresses without a listener. A process that is restarted after a kill must
// listen on the same address, so the kernel must not choose the port: it chooses from the ports that it
// also uses for outgoing connections, and such a connection may have the port when the process restarts.
func freePorts(t testing.TB, n int) []string {
	t.Helper()
	// Linux uses the ports from 32768 on for outgoing connections
	const lowest, highest = 15000, 32000
	lastPort.CompareAndSwap(0, int32(lowest+rand.IntN(highest-lowest)))

	var addrs []string

	for range highest - lowest {
		port := lastPort.Add(1)
		lastPort.CompareAndSwap(highest, lowest)

		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}

		require.NoError(t, l.Close())

		if addrs = append(addrs, l.Addr().String()); len(addrs) == n {
			return addrs
		}
	}

	require.FailNow(t, "no free ports")

	return nil
}

func portOf(t testing.TB, addr string) string {
	t.Helper()

	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)

	return port
}

// dataFolder returns a new data folder that shares the tests' agent binaries.
func dataFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(agents, filepath.Join(dir, "agents")))

	return dir
}
