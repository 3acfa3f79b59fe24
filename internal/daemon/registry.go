package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/tool"
	"github.com/rolloutd/rolloutd/internal/tool/external"
	"github.com/rolloutd/rolloutd/internal/tool/sandboxtool"
)

// toolLists returns the registry of a process that lists tools and calls none. A server whose configuration
// is incomplete on this machine fails when it is listed. closeAll is as for toolRegistry.
func toolLists(c config.Config, log *slog.Logger) (r *tool.Registry, closeAll func() error, err error) {
	var (
		opened  closers
		servers []tool.Server
	)

	for name, source := range sorted(c.ToolServers()) {
		server := tool.Server{Name: name, Toolsets: toolsetsOf(source)}
		if s, err := openTools(c, name, source, "tools.servers."+name, log, &opened); err != nil {
			server.Source = unusable{err}
		} else {
			server.Source = s
		}

		servers = append(servers, server)
	}

	if r, err = registry(servers); err != nil {
		return nil, nil, errors.Join(err, opened.close())
	}

	return r, opened.close, nil
}

// unusable is a server that cannot be reached from this process.
type unusable struct{ why error }

// List implements tool.Source.
func (u unusable) List(context.Context) ([]tool.Definition, error) {
	return nil, fault.Wrap(fault.Unavailable, u.why, "list the tools")
}

// Call implements tool.Source.
func (u unusable) Call(context.Context, tool.Env, tool.Call) (tool.Result, error) {
	return tool.Result{}, fault.Wrap(fault.Unavailable, u.why, "call a tool")
}

// toolRegistry returns the registry of a worker. closeAll ends the connections to servers, and servers that
// are processes of this host.
func toolRegistry(c config.Config, log *slog.Logger) (r *tool.Registry, closeAll func() error, err error) {
	var (
		opened  closers
		servers []tool.Server
	)

	for name, source := range sorted(c.ToolServers()) {
		s, err := openTools(c, name, source, "tools.servers."+name, log, &opened)
		if err != nil {
			return nil, nil, errors.Join(err, opened.close())
		}

		servers = append(servers, tool.Server{Name: name, Toolsets: toolsetsOf(source), Source: s})
	}

	if r, err = registry(servers); err != nil {
		return nil, nil, errors.Join(err, opened.close())
	}

	return r, opened.close, nil
}

func registry(servers []tool.Server) (*tool.Registry, error) {
	return tool.NewRegistry(sandboxtool.Tools(), sandboxtool.Toolsets(), servers...)
}

// openTools makes the source of one server. The source connects at its first use.
func openTools(
	c config.Config,
	name string,
	s config.ToolSource,
	path string,
	log *slog.Logger,
	opened *closers,
) (*external.Server, error) {
	if s.Missing != nil {
		return nil, s.Missing
	}

	o := external.Options{Name: name, Prefix: s.Prefix, Timeout: s.Timeout, Concurrency: s.Concurrency, Logger: log}

	var server *external.Server

	switch {
	case s.URL == config.InProcess:
		inside, err := toolHandler(c.ToolServer, log, opened)
		if err != nil {
			return nil, err
		}

		server = external.ToolServer(o, "http://inprocess", c.ToolServer.Token, memoryTransport{inside})
	case s.URL != "":
		server = external.ToolServer(o, s.URL, s.Token, nil)
	case s.MCP != "":
		server = external.MCP(o, s.MCP, s.Token)
	case len(s.Command) > 0:
		var env []string
		for key, value := range sorted(s.Env) {
			env = append(env, key+"="+value)
		}

		server = external.Command(o, s.Command, env)
	default:
		return nil, fmt.Errorf("%s: must have exactly one of url, mcp and command", path)
	}

	*opened = append(*opened, server.Close)

	return server, nil
}

func toolsetsOf(s config.ToolSource) []tool.Toolset {
	var sets []tool.Toolset
	for name, tools := range sorted(s.Toolsets) {
		sets = append(sets, tool.Toolset{Name: name, Tools: tools})
	}

	return sets
}

// sorted iterates a map in the order of its keys.
func sorted[V any](m map[string]V) func(func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// closers close the opened sources.
type closers []func() error

func (c *closers) close() error {
	var errs []error
	for _, f := range *c {
		errs = append(errs, f())
	}

	return errors.Join(errs...)
}
