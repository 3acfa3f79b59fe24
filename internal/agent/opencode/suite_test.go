package opencode_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

func TestOpencodePassesTheSuite(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("needs the real OpenCode, a download of 60 MB")
	}

	agents := agentsDir(t)
	_, err := binary.New(binary.Options{AgentsDir: agents}).Fetch(t.Context())
	require.NoError(t, err)
	agenttest.Run(t, agenttest.Harness{
		Backend: func(t *testing.T) *sandbox.Backend { return newBackend(t, agents) },
		Agent: func(*testing.T) agent.Agent {
			return opencode.New(opencode.Options{Binary: binary.New(binary.Options{AgentsDir: agents})})
		},
		Quick:    agent.Job{Instruction: agenttest.QuickInstruction},
		Endless:  &agent.Job{Instruction: agenttest.EndlessInstruction},
		Messages: true,
	})
}
