package taskset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

const compose = "services: {main: {}, web: {image: \"web:1\"}}\n"

// MCP servers and skills of a Harbor task are those of the sandbox. The agent may reach a server elsewhere.
func TestHarborMCPServers(t *testing.T) {
	t.Parallel()

	task, err := open(t, folder(t, harborTask(map[string]string{
		"environment/docker-compose.yaml": compose,
		"task.toml": `[environment]
docker_image = "x:1"
skills_dir = "/skills"
[[environment.mcp_servers]]
name = "local"
transport = "stdio"
command = "npx"
args = ["-y", "server"]
[[environment.mcp_servers]]
name = "beside"
url = "http://web:8000/sse"
[[environment.mcp_servers]]
name = "docs"
transport = "http"
url = "https://docs.example.org/mcp"
`,
	}))).Task(0)
	require.NoError(t, err)
	require.Empty(t, task.Notes)
	require.Equal(t, "/skills", task.Sandbox["skills_dir"])
	require.Equal(t, []rollout.MCPServer{
		{Name: "local", Transport: rollout.MCPStdio, Command: "npx", Args: []string{"-y", "server"}},
		{Name: "beside", Transport: rollout.MCPSSE, URL: "http://web:8000/sse"},
		{Name: "docs", Transport: rollout.MCPHTTP, URL: "https://docs.example.org/mcp"},
	}, task.Sandbox["mcp_servers"])
	require.Equal(t, map[string]any{"agent": []string{"docs.example.org:443"}}, task.Network)
}

func TestHarborMCPServersThatAreRefused(t *testing.T) {
	t.Parallel()

	for settings, want := range map[string]string{
		"[[environment.mcp_servers]]\nname = \"a b\"\nurl = \"http://x/\"\n":                                             "task.toml: sandbox.mcp_servers[0].name: must be",
		"[[environment.mcp_servers]]\nname = \"a\"\n":                                                                    "task.toml: sandbox.mcp_servers[0].url: must be an address",
		"[[environment.mcp_servers]]\nname = \"a\"\nurl = \"http://x/\"\nheaders = {A = \"${TOKEN}\"}\n":                 "task.toml: environment.mcp_servers[0].headers: is not supported, since a task has no secrets",
		"[environment]\nskills_dir = \"/skills\"\n":                                                                      "task.toml: sandbox.skills_dir: must be below /home/user",
		"[environment]\nnetwork_mode = \"no-network\"\n[[environment.mcp_servers]]\nname = \"a\"\nurl = \"http://x/\"\n": `task.toml: environment.mcp_servers[0].url: x:80 is no service beside the agent, and network_mode is "no-network"`,
	} {
		_, err := open(t, folder(t, harborTask(map[string]string{"task.toml": settings}))).Task(0)
		require.ErrorContains(t, err, want)
	}
}
