package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// sandboxd has its own constants for the agent's folders: it starts often and should not load package
// rollout. They must equal those of the domain.
func TestFoldersOfTheAgent(t *testing.T) {
	t.Parallel()
	require.Equal(t, rollout.Home, wire.AgentHome)
	require.Equal(t, rollout.Workdir, wire.AgentWorkdir)
}
