package command_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/agent/command"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// withoutGateway are the presets whose API an endpoint serves. Google's is served by the gateway alone: the end-to-end tests run gemini-cli.
var withoutGateway = map[string]bool{"codex": true, "claude-code": true, "qwen-code": true}

// Every preset passes the suite, where it needs no gateway.
func TestPresetsPassTheSuite(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the real agents, downloads of 160 MB each")
	}
	agents := agentsDir(t)
	for _, s := range command.Presets() {
		if !withoutGateway[s.Name] {
			continue
		}
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
