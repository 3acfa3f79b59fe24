package react_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/agent/react"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// sandboxdPath is the path of sandboxd, which is built once for the package.
var sandboxdPath string

func TestMain(m *testing.M) { os.Exit(agenttest.Main(m, &sandboxdPath)) }

// The agent passes the suite with real sandboxes, and with a gateway between it and the scripted model.
func TestSuite(t *testing.T) {
	t.Parallel()

	jobOf := func(instruction string) agent.Job {
		return agent.Job{Instruction: instruction, Model: rollout.Model{TokenIDs: true}}
	}
	endless := jobOf(agenttest.EndlessInstruction)
	agenttest.Run(t, agenttest.Harness{
		Backend: func(t *testing.T) *sandbox.Backend {
			t.Helper()
			d, err := local.New(local.Options{Dir: t.TempDir(), SandboxdPath: sandboxdPath})
			require.NoError(t, err)

			return sandbox.New(d, sandbox.Options{})
		},
		Env: func(t *testing.T, p *agenttest.Place) agent.Env {
			t.Helper()
			return agent.Env{Sandbox: p.Sandbox, Model: newGateway(t, p.ModelURL()).Model("r1.1"), Tools: &tools{}}
		},
		Agent: func(*testing.T) agent.Agent { return react.Agent{} },
		Quick: jobOf(agenttest.QuickInstruction), Endless: &endless, Messages: true, OnHost: true,
	})
}
