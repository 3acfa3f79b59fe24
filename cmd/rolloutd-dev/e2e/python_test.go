package e2e

import (
	"path/filepath"
	"testing"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// The published Python clients of each release run real rollouts on a server: the tool client in both
// modes, the generic and the synchronous client, and the MCP client. The validator checks the server, too.
// The scripts are those that the tests of the edge run against an engine in memory. OpenCode runs for the typed client,
// and the others ask for the agent react: what a client sends and gets is the same.
func TestPythonClients(t *testing.T) {
	t.Parallel()
	model := startModel(t, clientScript)
	env := []string{"VLLM_URL=" + model.url, "OPENAI_BASE_URL=" + model.url, "OPENAI_API_KEY=none"}
	edge := filepath.Join("..", "..", "..", "envserver", "testdata", "py")

	pythons := map[string]pyclient.Python{}
	for _, release := range pyclient.Releases() {
		pythons[release.Name] = preloaded(t, release)
	}

	for name, python := range pythons {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			play := startDev(t, devOptions{env: env})
			for script, arg := range map[string]string{
				"tool_client.py": model.url, "generic_client.py": "", "production_client.py": "", "sync_client.py": "",
				"standard_client.py": "", "validate.py": "simulation", "openapi.py": "",
			} {
				t.Run(script, func(t *testing.T) {
					t.Parallel()
					python.Run(t, filepath.Join(edge, script), play.url, arg)
				})
			}

			t.Run("run_rollout.py", func(t *testing.T) {
				t.Parallel()
				python.Run(t, filepath.Join("testdata", "run_rollout.py"), play.url)
			})
		})
	}

	t.Run("production", func(t *testing.T) {
		t.Parallel()
		srv := startDev(t, devOptions{
			env:   append([]string{"OPENENV_SERVER_MODE=simulation"}, env...),
			flags: []string{"--mode", "production"},
		})

		for _, python := range pythons {
			for _, script := range []string{"production_client.py", "standard_client.py", "validate.py"} {
				python.Run(t, filepath.Join(edge, script), srv.url, "production")
			}
		}
	})
}

// preloaded returns an interpreter that has imported the OpenEnv clients.
func preloaded(t *testing.T, release pyclient.Requirements) pyclient.Python {
	t.Helper()

	return pyclient.Interpreter(t, release).
		Preloaded(t, "openenv.cli.__main__", "openenv.core.mcp_client", "openenv.core.generic_client", "openapi_spec_validator")
}

// clientScript plays the tasks of the clients' scripts.
const clientScript = `
- match: write a file
  turns:
    - tool_calls: [{name: bash, arguments: {command: "printf '<ok> & done' > größe.txt", description: "Write"}}]
    - text: Written.
- turns:
    - text: Hello.
`
