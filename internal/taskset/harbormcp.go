package taskset

import (
	"cmp"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// harborMCP is a server with tools for the agent.
type harborMCP struct {
	Name string `toml:"name"`

	// sse is the default; http is another name of streamable-http
	Transport string            `toml:"transport"`
	URL       string            `toml:"url"`
	Command   string            `toml:"command"`
	Args      []string          `toml:"args"`
	Headers   map[string]string `toml:"headers"`
}

// mcp puts the MCP servers and the skills of the environment into the sandbox, whose services are there already. A
// server elsewhere is a host that the agent asks for, unless the task has a list of hosts.
func (h *harborReader) mcp(t *Task, size map[string]any, s harborSettings) {
	box := rollout.Sandbox{Image: s.Environment.DockerImage, SkillsDir: s.Environment.SkillsDir}
	box.Services, _ = size["services"].([]rollout.Service)

	for i, m := range s.Environment.MCPServers {
		if len(m.Headers) > 0 {
			h.refuse("%s: environment.mcp_servers[%d].headers: is not supported, since a task has no secrets", harborFile, i)
		}

		transport := cmp.Or(m.Transport, rollout.MCPSSE)
		if transport == "http" {
			transport = rollout.MCPHTTP
		}

		box.MCPServers = append(box.MCPServers, rollout.MCPServer{
			Name: m.Name, Transport: transport, URL: m.URL, Command: m.Command, Args: m.Args,
		})
	}

	if err := box.CheckMCP(); err != nil {
		h.refuse("%s: %v", harborFile, err)
		return
	}

	if len(box.MCPServers) > 0 {
		size["mcp_servers"] = box.MCPServers
		h.reachServers(t, box, s)
	}

	set(size, "skills_dir", box.SkillsDir)
}

// reachServers lets the agent reach the MCP servers that are elsewhere. A task with lists of hosts must have them there.
func (h *harborReader) reachServers(t *Task, box rollout.Sandbox, s harborSettings) {
	mode := cmp.Or(s.Agent.Mode, s.Environment.Mode, harborPublic)

	for i := range box.MCPServers {
		address := box.RemoteMCP(i)

		switch {
		case address == "" || mode == harborAllowlist:
			// the server of rolloutd compares with the lists
		case mode == harborNoNetwork:
			h.refuse("%s: environment.mcp_servers[%d].url: %s is no service beside the agent, and network_mode is %q",
				harborFile, i, address, mode)
		default:
			if t.Network == nil {
				t.Network = map[string]any{}
			}

			hosts, _ := t.Network["agent"].([]string)
			t.Network["agent"] = append(hosts, address)
		}
	}
}
