package command_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/agent/command"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// Every preset passes the suite with its own model API.
func TestPresetsPassTheSuite(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("needs the real agents, downloads of 160 MB each")
	}

	agents := agentsDir(t)
	for _, s := range command.Presets() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()

			o := command.Options{AgentsDir: agents}
			_, err := newAgent(t, s, o).Fetch(t.Context())
			require.NoError(t, err)
			agenttest.Run(t, agenttest.Harness{
				Backend:  func(t *testing.T) *sandbox.Backend { return newBackend(t, agents) },
				Agent:    func(t *testing.T) agent.Agent { return newAgent(t, s, o) },
				Quick:    agent.Job{Instruction: agenttest.QuickInstruction},
				Endless:  &agent.Job{Instruction: agenttest.EndlessInstruction},
				Messages: true,
			})
		})
	}
}
