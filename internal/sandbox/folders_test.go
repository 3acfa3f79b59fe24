package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// sandboxd names the agent's folders itself: it is started often, and does not load the domain for that.
func TestFoldersOfTheAgent(t *testing.T) {
	t.Parallel()
	require.Equal(t, rollout.Home, wire.AgentHome)
	require.Equal(t, rollout.Workdir, wire.AgentWorkdir)
}
