package daemon_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The edge, which has no agents, and the worker agree on which agents need a model endpoint.
func TestAgentsThatNeedAModel(t *testing.T) {
	t.Parallel()

	agents, err := daemon.Agents(config.Defaults(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Contains(t, agents.Names(), rollout.AgentNop)

	for _, name := range agents.Names() {
		kind, err := agents.Get(name)
		require.NoError(t, err)
		require.Equal(t, !kind.NoModel, rollout.NeedsModel(name), name)
	}
}
