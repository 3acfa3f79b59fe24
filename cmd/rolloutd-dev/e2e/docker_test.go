package e2e

import (
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A rollout runs in containers. The worker is killed while the agent works, the next worker attaches to the
// agent's container, and the verifier runs in another container. No container remains. If the daemon does
// not have the image, the rollout fails with the reason and without a retry.
func TestRolloutInContainers(t *testing.T) {
	t.Parallel()
	engine := dockertest.ForTest(t)
	require.NoError(t, engine.Programs(t.Context(), "agents:1", "rg"))
	model := startModel(t, slowScript)
	srv := startDev(t, devOptions{
		modelURL: model.url,
		env:      []string{"DOCKER_HOST=" + engine.Socket, "ROLLOUTD_IMAGE_REGISTRIES=registry.invalid"},
		flags: []string{
			"--config",
			configFile(t, "sandbox:\n  backends: {local: {}, docker: {}}\n  docker: {image: \"agents:1\"}\n"),
		},
	})
	id := start(t, srv.url, args{
		"instruction": "take your time", "endpoint": "scripted", "sandbox": args{"backend": "docker"},
		"setup":  []string{"echo setup >> log.txt"},
		"verify": []string{`test "$(cat log.txt)" = "$(printf 'setup\none\ntwo\nthree')"`},
	})
	waitFor(t, srv.url, id, "reaches the agent", func(s state) bool { return reached(s.Phase, rollout.PhaseAgent) })
	require.NotEmpty(t, containers(t, engine))
	srv.kill()
	srv = srv.restart(t)
	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1, *result.Reward, 0, "%+v", result.VerifyResults)
	require.Len(t, result.Attempts, 1, "a restart is no new attempt")
	require.Len(t, result.ProxyTurns, 4)
	requireWholeTurns(t, result)
	require.Empty(t, containers(t, engine))
	require.Empty(t, srv.sandboxes(t))

	result = runRollout(t, srv.url, args{
		"instruction": "x", "agent": rollout.AgentNop, "sandbox": args{"backend": "docker", "image": "missing:1"},
	})
	require.Contains(t, deref(result.Error), `"missing:1" is not on this host`)
	require.Nil(t, result.Reward)
	require.Len(t, result.Attempts, 1)
	require.Empty(t, containers(t, engine))
}

// containers returns the names of all sandbox containers.
func containers(t *testing.T, engine *dockertest.Engine) []string {
	t.Helper()
	all, err := engine.Client.ContainerList(t.Context(), client.ContainerListOptions{
		All:     true,
		Filters: client.Filters{}.Add("label", "dev.rolloutd.sandbox"),
	})
	require.NoError(t, err)

	var names []string
	for _, c := range all.Items {
		names = append(names, c.Names...)
	}

	return names
}
