package agent_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// sandboxdPath is the path of sandboxd, which is built once for the package.
var sandboxdPath string

func TestMain(m *testing.M) { os.Exit(agenttest.Main(m, &sandboxdPath)) }

func newBackend(t *testing.T) *sandbox.Backend {
	t.Helper()
	d, err := local.New(local.Options{Dir: t.TempDir(), SandboxdPath: sandboxdPath})
	require.NoError(t, err)

	return sandbox.New(d, sandbox.Options{})
}

func solution(commands ...string) agent.Job { return agent.Job{Solution: commands} }

func TestOraclePassesTheSuite(t *testing.T) {
	t.Parallel()

	endless, loud := solution("sleep infinity"), solution("yes loud | head -c 5000000")
	agenttest.Run(t, agenttest.Harness{
		Backend: newBackend, Agent: func(*testing.T) agent.Agent { return agent.NewOracle() },
		Quick: solution("echo solved"), Endless: &endless, Loud: &loud, Messages: true,
	})
}

func TestNopPassesTheSuite(t *testing.T) {
	t.Parallel()
	agenttest.Run(t, agenttest.Harness{
		Backend: newBackend,
		Agent:   func(*testing.T) agent.Agent { return agent.NewNop() },
	})
}

func TestKindsNeedNoModel(t *testing.T) {
	t.Parallel()

	for _, k := range []agent.Kind{agent.NewOracle(), agent.NewNop()} {
		require.True(t, k.NoModel)
		require.False(t, rollout.NeedsModel(k.Name))
	}
}

// Commands run in order, each in its own shell in the workdir. The first failing command ends the work.
func TestSolution(t *testing.T) {
	t.Parallel()
	p := agenttest.NewPlace(t, newBackend(t), "")
	r, err := agent.NewOracle().Open(t.Context(), p.Env(), solution(
		"x=1; cd /; printf 'one\n' > /home/user/workdir/out", "cat; echo \"two$x\" >> out",
		"set -e; false; echo never >> out", "echo later >> out"))
	require.NoError(t, err)
	st := agenttest.Finish(t, r)
	require.Equal(t, 1, st.ExitCode)
	require.Contains(t, st.Error, "oracle exited with code 1; its stderr ends with: solution command 3 failed")
	out, err := p.ReadFile(t.Context(), rollout.Workdir+"/out", 1000)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(out))
}

// A command may be longer than the kernel's limit for an argument.
func TestLongSolution(t *testing.T) {
	t.Parallel()
	p := agenttest.NewPlace(t, newBackend(t), "")
	r, err := agent.NewOracle().Open(t.Context(), p.Env(), solution(fmt.Sprintf("echo '%0300000d' > out", 7)))
	require.NoError(t, err)
	st := agenttest.Finish(t, r)
	require.True(t, st.Answered(), "%+v", st)
}

func TestNoSolution(t *testing.T) {
	t.Parallel()
	p := agenttest.NewPlace(t, newBackend(t), "")
	_, err := agent.NewOracle().Open(t.Context(), p.Env(), agent.Job{})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}
