package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/store/azuretest"
	_ "github.com/rolloutd/rolloutd/internal/store/cloud" // registers the bucket drivers
	"github.com/rolloutd/rolloutd/internal/store/emulator"
	"github.com/rolloutd/rolloutd/internal/store/gcstest"
)

// The store of an OpenCode rollout is a bucket of GCS or a container of Azure. The server is killed while
// the agent works, and connections to the bucket break. The bucket then has the result and all artifacts of
// the rollout, and the data folder has none of them. The test is not parallel, since it sets the server's
// variables in its own environment to read the bucket.
func TestRolloutOnOtherStores(t *testing.T) {
	if os.Getenv("ROLLOUTD_TEST_STORES") == "" {
		t.Skip("set ROLLOUTD_TEST_STORES=1, or run deploy/suite.sh stores")
	}

	gcs, azure := gcstest.Start(t), azuretest.Start(t)
	for _, c := range []struct {
		name, url string
		front     *emulator.Proxy
		env       []string
	}{
		{"gcs", "gs://" + gcstest.Bucket, gcs.Proxy, gcs.Env()},
		{"azure", azure.URL(azuretest.Container), azure.Proxy, azuretest.Env()},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := startModel(t, slowScript)
			srv := startDev(t, devOptions{modelURL: model.url, env: append(c.env, "ROLLOUTD_STORE_URL="+c.url)})
			id := start(t, srv.url, args{
				"instruction": "take your time", "endpoint": "scripted", "setup": []string{"echo setup >> log.txt"},
				"verify": []string{`test "$(cat log.txt)" = "$(printf 'setup\none\ntwo\nthree')"`},
			})
			waitFor(
				t,
				srv.url,
				id,
				"reaches the agent",
				func(s state) bool { return reached(s.Phase, rollout.PhaseAgent) },
			)
			srv.kill()
			srv = srv.restart(t)

			c.front.Drop(3)

			result := finalize(t, srv.url, id)
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward)
			require.InDelta(t, 1, *result.Reward, 0, "%+v", result.VerifyResults)
			require.Len(t, result.Attempts, 1)
			require.Len(t, result.ProxyTurns, 4)
			requireWholeTurns(t, result)

			for _, pair := range c.env {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}

			requireStored(t, c.url, result)
			require.NoDirExists(t, srv.data+"/store/rollouts")
		})
	}
}

// requireStored requires that the store has a rollout's result, trace, home, grading, agent output and transcript.
func requireStored(t *testing.T, url string, result rollout.Result) {
	t.Helper()
	s, err := store.Open(t.Context(), url)
	require.NoError(t, err)

	defer s.Close()

	var stored rollout.Result
	require.NoError(t, s.JSON(t.Context(), store.ResultKey(result.ID), &stored))
	require.Equal(t, result.Reward, stored.Reward)
	require.Equal(t, result.Files, stored.Files)

	for _, name := range []string{store.Trace, store.Home, store.Grading, store.OpencodeOutput, store.Transcript} {
		exists, err := s.Exists(t.Context(), store.AttemptKey(result.ID, 1, name))
		require.NoError(t, err)
		require.True(t, exists, name)
	}
}
