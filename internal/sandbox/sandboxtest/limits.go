package sandboxtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// limitTests are about what runs out in a sandbox, as its driver tells it. A driver that cannot know one
// thing is not tested for it.
func limitTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"NothingRanOut":    nothingRanOut,
		"OutOfMemory":      outOfMemory,
		"TooManyProcesses": tooManyProcesses,
		"FullFolder":       fullFolder,
	}
}

func (p *Place) usage() driver.Usage {
	p.t.Helper()
	u, err := p.Backend.Inspect(p.t.Context(), p.ID())
	require.NoError(p.t, err)

	return u
}

func nothingRanOut(t *testing.T, h Harness) {
	p := h.place(t)
	require.Zero(t, p.Bash("head -c 1M /dev/zero > /home/user/some; ls / | cat").ExitCode)
	u := p.usage()
	require.LessOrEqual(t, u.OOMKills, 0)
	require.LessOrEqual(t, u.ForksRefused, 0)
	require.Empty(t, u.FullFolders)
}

func outOfMemory(t *testing.T, h Harness) {
	p := New(t, h.Open(t), driver.Spec{MemoryMiB: 64})
	if p.usage().OOMKills < 0 {
		t.Skip("the driver does not count processes killed for memory")
	}

	require.Equal(t, "SIGKILL", p.Bash("x=x; while :; do x=$x$x; done").Signal)
	require.Positive(t, p.usage().OOMKills)
	require.LessOrEqual(t, p.usage().ForksRefused, 0, "none, or not counted")
}

func tooManyProcesses(t *testing.T, h Harness) {
	p := New(t, h.Open(t), driver.Spec{PIDs: 48})
	if p.usage().ForksRefused < 0 {
		t.Skip("the driver does not count refused processes")
	}

	p.StartBash("many", "while :; do sleep infinity & done")
	p.Eventually(func() bool { return p.usage().ForksRefused > 0 }, "a process is refused")
	require.NoError(t, p.KillAll(t.Context()))
	require.LessOrEqual(t, p.usage().OOMKills, 0, "none, or not counted")
}

// A folder is full until something in it is removed. A link to another place changes nothing.
func fullFolder(t *testing.T, h Harness) {
	p := h.place(t)
	p.Bash("ln -s / /home/user/tmp; head -c 1G /dev/zero > /home/user/big")

	full := p.usage().FullFolders
	if full == nil {
		t.Skip("the driver does not know how full its folders are")
	}

	// that of an image is a part of its root file system
	require.Contains(t, [][]string{{wire.AgentHome}, {"/"}}, full)
	require.NoError(t, p.Remove(t.Context(), wire.AgentHome+"/big"))
	require.Empty(t, p.usage().FullFolders)
}
