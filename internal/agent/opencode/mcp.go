package opencode

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// mcpStart bounds the connection to an MCP server with the list of its tools. OpenCode's own bound is too short
	// for a program that starts on a busy host.
	mcpStart = time.Minute

	// mcpPatience bounds the connections to all MCP servers. OpenCode makes them at once.
	mcpPatience = mcpStart + 30*time.Second

	// mcpExcerpt bounds what an error has of a server's, in bytes.
	mcpExcerpt = 500
)

// mcpServers is the setting "mcp".
func mcpServers(servers []rollout.MCPServer) map[string]any {
	settings := map[string]any{}

	for _, s := range servers {
		setting := map[string]any{"timeout": mcpStart.Milliseconds()}
		if s.Transport == rollout.MCPStdio {
			setting["type"], setting["command"] = "local", append([]string{s.Command}, s.Args...)
		} else {
			// without "oauth" a refusal begins a login
			setting["type"], setting["url"], setting["oauth"] = "remote", s.URL, false
		}

		settings[s.Name] = setting
	}

	return settings
}

// checkExtensions returns when OpenCode is connected to the task's MCP servers, and the folder of its skills exists.
// Otherwise the agent would have another task than the one that is meant: a fault.SetupFailed. It must be called before
// the agent acts, since an agent can break both.
func (r *run) checkExtensions(ctx context.Context) error {
	if r.resumed {
		// the launch of another worker, which may have acted
		return nil
	}

	if r.job.Skills != "" {
		_, err := r.box.ReadFile(ctx, r.job.Skills, 0)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.SetupFailed, "sandbox.skills_dir: the sandbox has no folder %s", r.job.Skills)
		}

		// a folder is not a file
		if err != nil && !fault.Is(err, fault.Invalid) {
			return err
		}
	}

	if len(r.job.MCPServers) == 0 {
		return nil
	}

	return r.awaitServers(ctx)
}

// awaitServers waits for the connections to the MCP servers.
func (r *run) awaitServers(ctx context.Context) error {
	bounded, cancel := context.WithTimeoutCause(ctx, mcpPatience, fault.New(
		fault.SetupFailed, "opencode did not connect to the MCP servers of the task within %s", mcpPatience))
	defer cancel()

	for p := newPauses(); ; {
		var servers map[string]mcpStatus

		err := r.api().get(bounded, "/mcp", &servers)
		if err == nil {
			return r.checkServers(servers)
		}

		if bounded.Err() != nil && ctx.Err() == nil {
			return context.Cause(bounded)
		}

		// it answers when the connections are made, so a request may end before
		if !fault.Is(err, fault.Unavailable) {
			return err
		}

		if err := r.alive(bounded); err != nil {
			return err
		}

		// the next request finds the end of the context
		_ = p.wait(bounded)
	}
}

// alive returns an error that leads to the reason if the process has ended.
func (r *run) alive(ctx context.Context) error {
	st, err := r.box.Status(ctx, r.process())
	if err == nil && !st.Running {
		err = fault.New(fault.Unavailable, "opencode has ended")
	}

	return err
}

// mcpStatus is OpenCode's state of an MCP server.
type mcpStatus struct {
	Status string `json:"status"`
	Error  string `json:"error"`
}

func (r *run) checkServers(servers map[string]mcpStatus) error {
	i := slices.IndexFunc(r.job.MCPServers, func(s rollout.MCPServer) bool {
		return servers[s.Name].Status != "connected"
	})
	if i < 0 {
		return nil
	}

	name := r.job.MCPServers[i].Name
	why := strings.TrimSpace(servers[name].Status + " " + servers[name].Error)

	return fault.New(fault.SetupFailed, "sandbox.mcp_servers[%d]: server %q is not connected: %.*s",
		i, name, mcpExcerpt, why)
}
