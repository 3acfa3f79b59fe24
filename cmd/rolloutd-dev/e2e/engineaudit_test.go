package e2e

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// requireAudited scores the turns of live rollouts again. They fit the engine that sampled them.
func (m *tinyModel) requireAudited(t *testing.T, srv *dev, e *engine, trainer string) {
	const rollouts = 4

	api, endpoint := gatewayapi.NewTrainer(trainer, trainerToken), strings.TrimPrefix(e.url, "http://")
	_, err := api.Resume(t.Context(), endpoint, "step-7")
	require.NoError(t, err)

	var ids []string
	for range rollouts {
		ids = append(ids, m.startWaiting(t, srv, e, m.System))
	}

	healthy, err := api.Audit(t.Context(), endpoint, gatewayapi.AuditRequest{})
	require.NoError(t, err)
	require.Equal(t, rollouts, healthy.Turns, "%+v", healthy)
	require.Empty(t, healthy.Marked)
	require.Len(t, healthy.Versions, 1)
	require.Less(t, healthy.Versions[0].MeanAbs, 1e-3)

	for _, id := range ids {
		_, err := call(t.Context(), srv.url, "abort_rollout", args{"rollout_id": id})
		require.NoError(t, err)
	}
}

// startWaiting starts a rollout whose agent waits after its first turn.
func (m *tinyModel) startWaiting(t *testing.T, srv *dev, e *engine, system string) string {
	t.Helper()

	id := start(t, srv.url, m.args(e, args{
		"sampling": args{"temperature": 1},
		"react":    args{"system_prompt": system, "tool_delay_s": 3600},
	}))
	waitFor(t, srv.url, id, "a turn", func(s state) bool { return s.Turns == 1 })

	return id
}

// requireSalted repeats a prompt. The engine has it in its cache until the weights have another name.
func (m *tinyModel) requireSalted(t *testing.T, srv *dev, e *engine, trainer string) {
	// more than the blocks of the engine's cache
	system := m.systemOf(t, e, 600)

	cached := func(version string) int {
		_, err := gatewayapi.NewTrainer(trainer, trainerToken).
			Resume(t.Context(), strings.TrimPrefix(e.url, "http://"), version)
		require.NoError(t, err)

		before := e.cached(t)
		id := m.startWaiting(t, srv, e, system)
		hits := e.cached(t) - before
		_, err = call(t.Context(), srv.url, "abort_rollout", args{"rollout_id": id})
		require.NoError(t, err)

		result := finalize(t, srv.url, id)
		require.Empty(t, result.ParamFixes, "the engine takes the salt")
		require.Equal(t, version, result.ProxyTurns[0].ModelVersion)

		return hits
	}

	require.Zero(t, cached("step-5"))
	require.Positive(t, cached("step-5"))
	require.Zero(t, cached("step-6"))
	require.Positive(t, cached("step-6"))
}

// cached returns the number of prompt tokens that the engine has found in its cache, from its metrics.
func (e *engine) cached(t *testing.T) int {
	t.Helper()

	found := regexp.MustCompile(`(?m)^vllm:prefix_cache_hits_total\{.*\} (\S+)$`).
		FindStringSubmatch(get(t, e.url+"/metrics"))
	require.NotNil(t, found)
	n, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)

	return int(n)
}
