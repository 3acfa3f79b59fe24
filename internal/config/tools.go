package config

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/network/egress"
)

// Tools are the tools outside the sandbox that policies may call.
type Tools struct {
	// Servers by the name of the toolset that has their tools.
	Servers map[string]ToolSource `yaml:"servers"`
	// ToolServerURL is a tool server under the name ToolServerName, with ToolServer.Token; "": none.
	ToolServerURL string `yaml:"tool_server_url"`
}

const (
	// ToolServerName is the toolset of the server of Tools.ToolServerURL.
	ToolServerName = "tool_server"
	// InProcess as URL of a tool server is the one of the section tool_server, inside the worker.
	InProcess = "inprocess"
)

// ToolServers are the servers by name, that of Tools.ToolServerURL included.
func (c Config) ToolServers() map[string]ToolSource {
	all := map[string]ToolSource{}
	maps.Copy(all, c.Tools.Servers)

	if c.Tools.ToolServerURL != "" {
		all[ToolServerName] = ToolSource{URL: c.Tools.ToolServerURL, Token: c.ToolServer.Token}
	}

	return all
}

// ToolSource is one server of tools. One of URL, MCP and Command is set.
type ToolSource struct {
	// URL of a tool server, or InProcess
	URL string `yaml:"url"`

	// URL of an MCP server (streamable HTTP)
	MCP string `yaml:"mcp"`

	// command line of an MCP server that speaks on stdin and stdout
	Command []string `yaml:"command"`

	// Token is sent as bearer token. It is in the variable TokenEnv or in the file TokenFile, so that the
	// configuration has no secret.
	Token     string `yaml:"-"`
	TokenEnv  string `yaml:"token_env"`
	TokenFile string `yaml:"token_file"`
	// Env and the variables of rolloutd's own environment that EnvFrom names are the environment of
	// Command, beside PATH and HOME.
	Env     map[string]string `yaml:"env"`
	EnvFrom []string          `yaml:"env_from"`

	// a secret that could not be read; nil: all could
	Missing error `yaml:"-"`

	// before the name of each tool
	Prefix string `yaml:"prefix"`

	// further groups of the server's tools, by their names with the prefix
	Toolsets map[string][]string `yaml:"toolsets"`

	// bounds one call; 0: 2m
	Timeout time.Duration `yaml:"timeout"`

	// calls at once of one host; 0: 16
	Concurrency int `yaml:"concurrency"`
}

// ToolServer is the role that serves tools.
type ToolServer struct {
	Listen string `yaml:"listen"`

	// bearer token; required beyond loopback
	Token string `yaml:"token"`

	// calls at once; 0: 16
	Concurrency int `yaml:"concurrency"`

	// MCP servers and tool servers whose tools are served
	Servers map[string]ToolSource `yaml:"servers"`

	// nil: no web_search and web_extract
	Web *WebTools `yaml:"web"`
}

// WebTools are the built-in tools for the web.
type WebTools struct {
	// answers GET ?q=…&format=json as SearXNG does; "": no web_search
	SearchURL    string `yaml:"search_url"`
	SearchKeyEnv string `yaml:"search_key_env"`
	SearchKey    string `yaml:"-"`

	// the key could not be read
	Missing error `yaml:"-"`
	// AllowHosts are special hosts (loopback, private) that web_extract may reach; see package egress for the patterns.
	AllowHosts []string `yaml:"allow_hosts"`
}

// toolSecrets reads the secrets that the configuration names. One that is missing is an error of the role
// that needs it.
func (c *Config) toolSecrets(env Environ) {
	for path, servers := range map[string]map[string]ToolSource{
		"tools.servers":       c.Tools.Servers,
		"tool_server.servers": c.ToolServer.Servers,
	} {
		for name, s := range servers {
			s.Missing = s.secrets(env, path+"."+name)
			servers[name] = s
		}
	}

	if w := c.ToolServer.Web; w != nil && w.SearchKeyEnv != "" {
		if w.SearchKey = env[w.SearchKeyEnv]; w.SearchKey == "" {
			w.Missing = fmt.Errorf("tool_server.web.search_key_env: the variable %s is not set", w.SearchKeyEnv)
		}
	}
}

func (s *ToolSource) secrets(env Environ, path string) error {
	switch {
	case s.TokenEnv != "" && s.TokenFile != "":
		return fmt.Errorf("%s: must have only one of token_env and token_file", path)
	case s.TokenEnv != "":
		if s.Token = env[s.TokenEnv]; s.Token == "" {
			return fmt.Errorf("%s.token_env: the variable %s is not set", path, s.TokenEnv)
		}
	case s.TokenFile != "":
		text, err := os.ReadFile(s.TokenFile)
		if err != nil {
			return fmt.Errorf("%s.token_file: %w", path, err)
		}

		if s.Token = strings.TrimSpace(string(text)); s.Token == "" {
			return fmt.Errorf("%s.token_file: %s is empty", path, s.TokenFile)
		}
	}

	if len(s.Command) == 0 {
		return nil
	}

	full := map[string]string{}
	for _, name := range []string{"PATH", "HOME"} {
		full[name] = env[name]
	}

	for _, name := range s.EnvFrom {
		if env[name] == "" {
			return fmt.Errorf("%s.env_from: the variable %s is not set", path, name)
		}

		full[name] = env[name]
	}

	maps.Copy(full, s.Env)
	s.Env = full

	return nil
}

func (t Tools) validate(p *problems) {
	validateSources(p, "tools.servers", t.Servers)

	if t.ToolServerURL != "" && t.ToolServerURL != InProcess {
		p.httpURL("tools.tool_server_url", t.ToolServerURL)
	}

	_, twice := t.Servers[ToolServerName]
	p.check(!twice || t.ToolServerURL == "", "tools.servers."+ToolServerName,
		"must have another name: this one is that of the server at tools.tool_server_url")
}

func (s ToolServer) validate(p *problems) {
	p.address("tool_server.listen", s.Listen)
	p.check(s.Token != "" || Loopback(s.Listen), "tool_server.token",
		"%s can be reached from other machines: set a bearer token (ROLLOUTD_TOOL_SERVER_TOKEN), or listen on 127.0.0.1",
		s.Listen)
	// on loopback it may be the token of another's tool server at tools.tool_server_url
	p.check(s.Token == "" || Loopback(s.Listen) || len(s.Token) >= minToken, "tool_server.token",
		"must have at least %d characters", minToken)
	p.check(s.Concurrency >= 0, "tool_server.concurrency", "must be 0 (the default) or more, got %d", s.Concurrency)
	validateSources(p, "tool_server.servers", s.Servers)

	for name, source := range s.Servers {
		p.check(source.URL != InProcess, "tool_server.servers."+name+".url",
			"must be the URL of another tool server, got %q", InProcess)
	}

	if s.Web == nil {
		return
	}

	if s.Web.SearchURL != "" {
		p.httpURL("tool_server.web.search_url", s.Web.SearchURL)
	}

	for i, host := range s.Web.AllowHosts {
		_, err := egress.Parse([]string{host})
		p.check(err == nil, fmt.Sprintf("tool_server.web.allow_hosts[%d]", i), "%v", err)
	}
}

var (
	toolsetPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	prefixPattern  = regexp.MustCompile(`^[A-Za-z0-9_-]{0,32}$`)
)

func validateSources(p *problems, path string, sources map[string]ToolSource) {
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		s, at := sources[name], path+"."+name
		p.check(toolsetPattern.MatchString(name), at,
			"the name must be 1 to 64 lower-case letters, digits, '_' or '-', beginning with a letter")

		ways := 0

		for _, set := range []bool{s.URL != "", s.MCP != "", len(s.Command) > 0} {
			if set {
				ways++
			}
		}

		p.check(ways == 1, at, "must have exactly one of url, mcp and command")

		if s.URL != "" && s.URL != InProcess {
			p.httpURL(at+".url", s.URL)
		}

		if s.MCP != "" {
			p.httpURL(at+".mcp", s.MCP)
		}

		p.check(len(s.Command) > 0 || len(s.Env)+len(s.EnvFrom) == 0, at, "env and env_from need command")
		p.check(s.Timeout >= 0 && s.Timeout <= 10*time.Minute, at+".timeout",
			"must be 0 (the default) to 10m, got %s", s.Timeout)
		p.check(s.Concurrency >= 0, at+".concurrency", "must be 0 (the default) or more, got %d", s.Concurrency)
		p.check(prefixPattern.MatchString(s.Prefix), at+".prefix",
			"must be at most 32 letters, digits, '_' or '-', got %q", s.Prefix)
	}
}
