package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A warm agent has started without what a task's sandbox may have.
func TestTakesWarm(t *testing.T) {
	t.Parallel()
	require.True(t, takesWarm(rollout.Sandbox{}))

	for name, s := range map[string]rollout.Sandbox{
		"image":     {Image: "debian:13"},
		"variables": {Env: map[string]string{"A": "b"}},
		"servers":   {MCPServers: []rollout.MCPServer{{Name: "words"}}},
		"skills":    {SkillsDir: "skills"},
		"network":   {Network: &rollout.Network{Agent: []string{"example.org"}}},
	} {
		require.False(t, takesWarm(s), name)
	}
}
