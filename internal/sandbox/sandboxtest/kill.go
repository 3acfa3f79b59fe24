package sandboxtest

import (
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

func killTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Stubborn":        stubborn,
		"Ended":           killEnded,
		"LeavesOthers":    leavesOthers,
		"All":             killAll,
		"ForkBomb":        forkBomb,
		"SupervisorLives": supervisorLives,
	}
}

// count is the number of processes, without the shell that counts, sandboxd, and what carries connections
// to it from outside: their parents are in no process namespace that the sandbox sees.
const count = "n=0; for p in /proc/[0-9]*; do { read -r _ _ _ parent _ < $p/stat; } 2>/dev/null && [ $parent != 0 ] && n=$((n+1)); done; echo $((n-1))"

// One that ignores signals, with children that do too, some in sessions of their own.
func stubborn(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("job", `trap '' TERM INT HUP
		sleep infinity &
		bash -c 'trap "" TERM; sleep infinity & sleep infinity' &
		setsid sleep infinity &
		echo up; sleep infinity`)
	p.Says("job", "up\n")
	require.NoError(t, p.Kill(t.Context(), "job"))
	st, err := p.Status(t.Context(), "job")
	require.NoError(t, err)
	require.False(t, st.Running)
	require.Equal(t, 137, st.ExitCode)
	require.False(t, st.TimedOut)
	require.Equal(t, "0\n", p.Bash(count).Stdout)
}

// What an ended process left in its session is killed as well, and a second kill finds nothing.
func killEnded(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("job", "sleep infinity & exit 4")
	require.Equal(t, 4, p.End("job").ExitCode)
	require.Equal(t, "1\n", p.Bash(count).Stdout)
	require.NoError(t, p.Kill(t.Context(), "job"))
	require.NoError(t, p.Kill(t.Context(), "job"))
	require.Equal(t, "0\n", p.Bash(count).Stdout)
}

func leavesOthers(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("a", "sleep infinity")
	p.StartBash("b", "sleep infinity")
	require.NoError(t, p.Kill(t.Context(), "a"))
	st, err := p.Status(t.Context(), "b")
	require.NoError(t, err)
	require.True(t, st.Running)
}

// No process escapes: not by a double fork, not by a session of its own, not by a held pipe.
func killAll(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash(
		"job",
		"(setsid bash -c 'trap \"\" TERM; sleep infinity' &) ; (sleep infinity &) ; echo up; sleep infinity",
	)
	p.StartBash("other", "sleep infinity")
	p.Says("job", "up\n")
	require.NoError(t, p.KillAll(t.Context()))

	for _, name := range []string{"job", "other"} {
		st, err := p.Status(t.Context(), name)
		require.NoError(t, err)
		require.False(t, st.Running, name)
	}

	require.Equal(t, "0\n", p.Bash(count).Stdout)
	require.NoError(t, p.KillAll(t.Context()))
}

// A fork bomb fills the process limit; the sandbox stays answerable and the bomb can be ended.
func forkBomb(t *testing.T, h Harness) {
	p := New(t, h.Open(t), driver.Spec{PIDs: 100})
	p.StartBash("bomb", "bomb() { bomb | bomb & }; bomb; while :; do sleep infinity & done")
	p.Eventually(func() bool {
		_, err := p.Start(t.Context(), "try-"+rand.Text(), wire.Process{Argv: []string{"sleep", "infinity"}})
		// at its fork, or as its first threads begin
		return fault.Is(err, fault.Exhausted) || fault.Is(err, fault.OutOfMemory)
	}, "the limit is reached")
	require.NoError(t, p.KillAll(t.Context()))
	require.Zero(t, p.Bash("true").ExitCode)
}

// No signal from inside ends the supervisor, nor do many that arrive while it handles others.
func supervisorLives(t *testing.T, h Harness) {
	p := h.place(t)
	require.Zero(
		t,
		p.Bash("for i in $(seq 100); do for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; done; true").ExitCode,
	)
	require.Equal(
		t,
		"0000000000000000\n",
		p.Bash("awk '/^SigIgn/ {print $2}' /proc/self/status").Stdout,
		"programs ignore nothing",
	)
	require.Zero(t, p.Bash("for i in $(seq 200); do kill -TERM 1; kill -SEGV 1; kill -QUIT 1; done; true").ExitCode)
	require.Equal(t, "ok\n", p.Bash("echo ok").Stdout)
}
