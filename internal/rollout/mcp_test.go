package rollout_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestCheckMCP(t *testing.T) {
	t.Parallel()

	stdio := rollout.MCPServer{Name: "a", Transport: rollout.MCPStdio, Command: "npx", Args: []string{"-y", "x"}}
	remote := rollout.MCPServer{Name: "b", Transport: rollout.MCPHTTP, URL: "http://web:8000/mcp"}
	with := func(change func(*rollout.MCPServer)) []rollout.MCPServer {
		s := remote
		change(&s)

		return []rollout.MCPServer{stdio, s}
	}

	for name, c := range map[string]struct {
		box  rollout.Sandbox
		want string
	}{
		"right": {rollout.Sandbox{MCPServers: []rollout.MCPServer{stdio, remote}, SkillsDir: "skills"}, ""},
		"many":  {rollout.Sandbox{MCPServers: make([]rollout.MCPServer, 17)}, "sandbox.mcp_servers: must have at most 16 servers, got 17"},
		"twice": {rollout.Sandbox{MCPServers: []rollout.MCPServer{stdio, stdio}}, `sandbox.mcp_servers[1].name: "a" is the name of two servers`},
		"hostile name": {
			rollout.Sandbox{MCPServers: with(func(s *rollout.MCPServer) { s.Name = "a\"; rm" })},
			"sandbox.mcp_servers[1].name: must be 1 to 32 letters",
		},
		"transport": {
			rollout.Sandbox{MCPServers: with(func(s *rollout.MCPServer) { s.Transport = "ws" })},
			`sandbox.mcp_servers[1].transport: must be stdio, streamable-http or sse, got "ws"`,
		},
		"no program": {
			rollout.Sandbox{MCPServers: with(func(s *rollout.MCPServer) { s.Transport = rollout.MCPStdio })},
			`sandbox.mcp_servers[1].command: must be the program of a server with transport "stdio"`,
		},
		"zero byte": {
			rollout.Sandbox{MCPServers: []rollout.MCPServer{{Name: "a", Transport: rollout.MCPStdio, Command: "a\x00b"}}},
			"sandbox.mcp_servers[0].args: must not contain a zero byte",
		},
		"a program beside a url": {
			rollout.Sandbox{MCPServers: with(func(s *rollout.MCPServer) { s.Command = "x" })},
			"sandbox.mcp_servers[1].command: must be left out",
		},
		"a file": {
			rollout.Sandbox{MCPServers: with(func(s *rollout.MCPServer) { s.URL = "file:///etc/passwd" })},
			"sandbox.mcp_servers[1].url: must be an address",
		},
		"a password": {
			rollout.Sandbox{MCPServers: with(func(s *rollout.MCPServer) { s.URL = "http://u:p@web/mcp" })},
			"sandbox.mcp_servers[1].url: must have no user and password",
		},
		"a port": {
			rollout.Sandbox{MCPServers: with(func(s *rollout.MCPServer) { s.URL = "http://web:70000/" })},
			"sandbox.mcp_servers[1].url: must have a port",
		},
		"a long url": {
			rollout.Sandbox{MCPServers: with(func(s *rollout.MCPServer) { s.URL = "http://web/" + strings.Repeat("a", 5000) })},
			"sandbox.mcp_servers[1].url: must have at most 4096 bytes",
		},
		"skills above":            {rollout.Sandbox{SkillsDir: "../skills"}, "sandbox.skills_dir: must be a folder below the workdir"},
		"skills of no image":      {rollout.Sandbox{SkillsDir: "/skills"}, "sandbox.skills_dir: must be below /home/user"},
		"skills of an image":      {rollout.Sandbox{SkillsDir: "/skills", Image: "x:1"}, ""},
		"skills with a zero byte": {rollout.Sandbox{SkillsDir: "a\x00"}, "sandbox.skills_dir: must be a path"},
	} {
		err := c.box.CheckMCP()
		if c.want == "" {
			require.NoError(t, err, name)
			continue
		}

		require.True(t, fault.Is(err, fault.Invalid), name)
		require.ErrorContains(t, err, c.want, name)
	}
}

// An agent that would not have the servers and skills is refused with the reason.
func TestAgentsThatTakeNoMCP(t *testing.T) {
	t.Parallel()

	for agent, refused := range map[string]bool{
		rollout.AgentOpencode: false, rollout.AgentNop: false, rollout.AgentReact: true, rollout.AgentInteractive: true, "codex": true,
	} {
		s := goodSpec()
		s.Agent, s.Sandbox.SkillsDir = agent, "skills"

		err := s.Validate()
		if !refused {
			require.NoError(t, err, agent)
			continue
		}

		require.ErrorContains(t, err, `sandbox.skills_dir: the agent "`+agent+`" takes none from a task: use the agent "opencode"`)
	}
}

// A server is remote unless it is in the sandbox or a service beside it.
func TestRemoteMCP(t *testing.T) {
	t.Parallel()

	box := rollout.Sandbox{Services: []rollout.Service{{Name: "web"}}}

	for url, want := range map[string]string{
		"http://web:8000/mcp": "", "http://localhost/": "", "http://127.0.0.2:1/": "", "http://[::1]:1/": "", "http://main/": "",
		"https://docs.example.org/mcp": "docs.example.org:443", "http://db/": "db:80", "http://[2001:db8::1]/": "[2001:db8::1]:80",
	} {
		box.MCPServers = []rollout.MCPServer{{URL: url}}
		require.Equal(t, want, box.RemoteMCP(0), url)
	}
}
