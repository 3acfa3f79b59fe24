package local_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// kernel is the start of a Python program that makes arbitrary system calls.
const kernel = `
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
def seize(pid):
    if libc.ptrace(0x4206, pid, None, None): raise OSError(ctypes.get_errno(), "seize")
def up(): print("up", flush=True)
`

// headless is a process whose first thread has exited. /proc shows it as a zombie, but it continues to run.
const headless = kernel + `
def work():
    while "Z" not in open("/proc/self/stat").read().split(")")[1]: time.sleep(0.01)
    up()
    time.sleep(3600)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
`

// watched is traced by a process of another session, which never waits for it. With an argument, each of
// its two threads is traced. A traced process stops at every signal, so its child has ended before the
// tracing begins.
const watched = kernel + `
main, go, ready, second = os.getpid(), os.pipe(), os.pipe(), []
if len(sys.argv) > 1:
    threading.Thread(target=lambda: (second.append(threading.get_native_id()), time.sleep(3600)), daemon=True).start()
    while not second: time.sleep(0.01)
if os.fork() == 0:
    if os.fork(): os._exit(0)
    os.setsid()
    os.read(go[0], 1)
    for task in [main] + second: seize(task)
    os.write(ready[1], b"x")
    time.sleep(3600)
os.wait()
os.write(go[1], b"x")
os.read(ready[0], 1)
up()
time.sleep(3600)
`

// A kill ends a process that looks dead at the first check, and a process that a tracer holds, by name and
// together with all others.
func TestKillIsNotEvaded(t *testing.T) {
	t.Parallel()

	for name, argv := range map[string][]string{
		"first thread has exited": {headless},
		"traced":                  {watched},
		"threads traced":          {watched, "threads"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := place(t, driver.Spec{PIDs: 200})

			argv = append([]string{"python3", "-c"}, argv...)
			serveInside(t, p, "alone", argv...)
			require.NoError(t, p.Kill(t.Context(), "alone"))
			requireEnded(t, p, "alone")
			serveInside(t, p, "job", argv...)
			require.NoError(t, p.KillAll(t.Context()))
			requireEnded(t, p, "job")
		})
	}
}

func requireEnded(t *testing.T, p *sandboxtest.Place, name string) {
	t.Helper()
	st, err := p.Status(t.Context(), name)
	require.NoError(t, err)
	require.False(t, st.Running)
	require.Equal(t, "SIGKILL", st.Signal)
}
