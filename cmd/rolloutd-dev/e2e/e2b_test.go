package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/e2b/e2btest"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A rollout runs in machines of E2B. The worker is killed while the agent works, the next worker attaches
// to the agent's machine, and the verifier runs in another machine. No machine remains. If E2B does not
// have the template, the rollout fails with the reason and without a retry.
func TestRolloutInMachines(t *testing.T) {
	t.Parallel()
	s := e2btest.ForTest(t)
	model := startModel(t, reactScript)
	srv := startDev(t, devOptions{
		modelURL: model.url,
		env:      machineEnv(s),
		flags:    []string{"--config", configFile(t, "sandbox:\n  backends: {local: {}, e2b: {}}\n")},
	})
	rolloutArgs := reactArgs()
	rolloutArgs["sandbox"] = args{"backend": "e2b"}
	id := start(t, srv.url, rolloutArgs)
	waitFor(t, srv.url, id, "reaches the agent", func(s state) bool { return reached(s.Phase, rollout.PhaseAgent) })
	require.NotEmpty(t, s.Machines())
	srv.kill()
	srv = srv.restart(t)
	result := finalize(t, srv.url, id)
	requireReact(t, result)
	require.Empty(t, s.Machines())

	result = runRollout(t, srv.url, args{
		"instruction": "x", "agent": rollout.AgentNop, "sandbox": args{"backend": "e2b", "image": "missing"},
	})
	require.Contains(t, deref(result.Error), `E2B has no template "missing"`)
	require.Nil(t, result.Reward)
	require.Len(t, result.Attempts, 1)
	require.Empty(t, s.Machines())
}

// machineEnv returns the environment that makes rolloutd use the E2B test server.
func machineEnv(s *e2btest.Server) []string {
	return []string{
		"E2B_API_KEY=" + s.Key,
		"E2B_API_URL=" + s.URL,
		"E2B_SANDBOX_URL=" + s.URL,
		"ROLLOUTD_E2B_TEMPLATE=" + e2btest.Template,
	}
}
