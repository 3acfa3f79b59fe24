package rollout

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// MCPServer is a server whose tools the agent has beside its own. It is the task's: it runs in the sandbox, beside it,
// or at a host that the agent may reach.
type MCPServer struct {
	Name      string `json:"name" jsonschema:"name of the server, with which the names of its tools begin"`
	Transport string `json:"transport" jsonschema:"stdio, streamable-http or sse"`
	// URL is for streamable-http and sse, Command and Args are for stdio.
	URL     string   `json:"url,omitempty" jsonschema:"address of a server over HTTP"`
	Command string   `json:"command,omitempty" jsonschema:"program of a server on stdin and stdout, which runs in the sandbox as the agent's user"`
	Args    []string `json:"args,omitempty" jsonschema:"arguments of command"`
}

// Transports of an MCPServer.
const (
	MCPStdio = "stdio"
	MCPHTTP  = "streamable-http"
	MCPSSE   = "sse"
)

const (
	maxMCPServers = 16

	// bounds a URL, and the path of skills, in bytes
	maxMCPText = 4096
)

// serverPattern keeps the names of tools, which begin with it, within what model APIs accept.
var serverPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

// TakesMCP reports whether the agent takes MCP servers and skills of a task. Those that run no model ignore them.
func TakesMCP(agent string) bool {
	return agent == AgentOpencode || agent == AgentOracle || agent == AgentNop
}

// CheckMCP refuses MCP servers and skills that cannot be used.
func (s Sandbox) CheckMCP() error {
	const field = "sandbox.mcp_servers"
	if len(s.MCPServers) > maxMCPServers {
		return fault.Field(field, "must have at most %d servers, got %d", maxMCPServers, len(s.MCPServers))
	}

	names := map[string]bool{}

	for i, server := range s.MCPServers {
		at := fmt.Sprintf("%s[%d]", field, i)
		if names[server.Name] {
			return fault.Field(at+".name", "%q is the name of two servers", server.Name)
		}

		names[server.Name] = true

		if err := server.check(at); err != nil {
			return err
		}
	}

	return s.checkSkills()
}

func (m MCPServer) check(at string) error {
	if !serverPattern.MatchString(m.Name) {
		return fault.Field(at+".name", "must be 1 to 32 letters, digits, '_' or '-', got %.100q", m.Name)
	}

	switch m.Transport {
	case MCPStdio:
		if m.Command == "" || m.URL != "" {
			return fault.Field(at+".command", "must be the program of a server with transport %q, which has no url", MCPStdio)
		}

		return checkArgs(at+".args", append([]string{m.Command}, m.Args...))
	case MCPHTTP, MCPSSE:
		if m.Command != "" || len(m.Args) > 0 {
			return fault.Field(at+".command", "must be left out for transport %q: the server has a url", m.Transport)
		}

		_, _, err := m.address(at)

		return err
	default:
		return fault.Field(at+".transport", "must be %s, %s or %s, got %.100q", MCPStdio, MCPHTTP, MCPSSE, m.Transport)
	}
}

// address is the host and the port of the URL.
func (m MCPServer) address(at string) (host string, port uint16, err error) {
	u, err := url.Parse(m.URL)

	switch {
	case len(m.URL) > maxMCPText:
		return "", 0, fault.Field(at+".url", "must have at most %d bytes, got %d", maxMCPText, len(m.URL))
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", 0, fault.Field(at+".url", "must be an address such as http://server:8000/mcp, got %.200q", m.URL)
	case u.User != nil:
		return "", 0, fault.Field(at+".url", "must have no user and password: a task has no secrets")
	}

	number := u.Port()
	if number == "" {
		number = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}

	parsed, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return "", 0, fault.Field(at+".url", "must have a port from 1 to 65535, got %.20q", number)
	}

	return u.Hostname(), uint16(parsed), nil
}

// RemoteMCP is the host with port of MCP server i; "": the server is in the sandbox, or a service beside it.
func (s Sandbox) RemoteMCP(i int) string {
	server := s.MCPServers[i]

	host, port, err := server.address("")
	if server.URL == "" || err != nil || s.isBeside(host) {
		return ""
	}

	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// isBeside reports whether the host is the loopback of the sandbox, under any name.
func (s Sandbox) isBeside(host string) bool {
	addr, err := netip.ParseAddr(host)

	return err == nil && addr.IsLoopback() || host == "localhost" ||
		len(s.Services) > 0 && host == MainService ||
		slices.ContainsFunc(s.Services, func(service Service) bool { return service.Name == host })
}

// checkSkills refuses a folder of skills that cannot be in the sandbox.
func (s Sandbox) checkSkills() error {
	const field = "sandbox.skills_dir"

	switch dir := s.SkillsFolder(); {
	case s.SkillsDir == "":
		return nil
	case len(s.SkillsDir) > maxMCPText || strings.ContainsRune(s.SkillsDir, 0):
		return fault.Field(field, "must be a path of at most %d bytes", maxMCPText)
	case !path.IsAbs(s.SkillsDir) && dir != Workdir && !strings.HasPrefix(dir, Workdir+"/"):
		return fault.Field(field, "must be a folder below the workdir, or an absolute path, got %.200q", s.SkillsDir)
	case s.Image == "" && !strings.HasPrefix(dir, Home+"/"):
		return fault.Field(field, "must be below %s in a sandbox without sandbox.image, got %.200q", Home, s.SkillsDir)
	default:
		return nil
	}
}

// SkillsFolder is the absolute path of SkillsDir, which may be relative to the workdir; "": there is none.
func (s Sandbox) SkillsFolder() string {
	if s.SkillsDir == "" || path.IsAbs(s.SkillsDir) {
		return s.SkillsDir
	}

	return path.Join(Workdir, s.SkillsDir)
}

// validMCP refuses MCP servers and skills for an agent that cannot use them: it would be trained on another task.
func (s Spec) validMCP() error {
	field := ""

	switch {
	case TakesMCP(s.Agent):
	case len(s.Sandbox.MCPServers) > 0:
		field = "sandbox.mcp_servers"
	case s.Sandbox.SkillsDir != "":
		field = "sandbox.skills_dir"
	}

	if field != "" {
		return fault.Field(field, "the agent %q takes none from a task: use the agent %q", s.Agent, AgentOpencode)
	}

	return s.Sandbox.CheckMCP()
}
