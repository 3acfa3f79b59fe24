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

// toolRegistry returns the registry of a worker. closeAll ends the connections to servers, and servers that
// are processes of this host.
func toolRegistry(c config.Config, log *slog.Logger) (r *tool.Registry, closeAll func() error, err error) {
	return openRegistry(c, log, func(err error) (tool.Source, error) { return nil, err })
}

// toolLists returns the registry of a process that lists tools and calls none. A server whose configuration
// is incomplete on this machine fails when it is listed. closeAll is as for toolRegistry.
func toolLists(c config.Config, log *slog.Logger) (r *tool.Registry, closeAll func() error, err error) {
	return openRegistry(c, log, func(err error) (tool.Source, error) { return unusable{err}, nil })
}

// openRegistry returns the registry of the sandbox's tools and the configured servers. incomplete takes the place of a
// server that cannot be opened.
func openRegistry(
	c config.Config,
	log *slog.Logger,
	incomplete func(error) (tool.Source, error),
) (r *tool.Registry, closeAll func() error, err error) {
	open := toolOpener{section: "tools.servers", inProcess: c.ToolServer, log: log}

	var servers []tool.Server

	for name, s := range sorted(c.ToolServers()) {
		var source tool.Source

		if source, err = open.server(name, s); err != nil {
			source, err = incomplete(err)
		}

		if err != nil {
			return nil, nil, errors.Join(err, open.close())
		}

		servers = append(servers, tool.Server{Name: name, Toolsets: toolsetsOf(s), Source: source})
	}

	if r, err = tool.NewRegistry(sandboxtool.Tools(), sandboxtool.Toolsets(), servers...); err != nil {
		return nil, nil, errors.Join(err, open.close())
	}

	return r, open.close, nil
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

// toolOpener opens the tool servers of a section of the configuration.
type toolOpener struct {
	section string

	// the tool server that runs in this process, for servers with the URL config.InProcess
	inProcess config.ToolServer
	log       *slog.Logger

	// close the opened servers
	closers []func() error
}

// server opens one server. It connects at its first use.
func (o *toolOpener) server(name string, s config.ToolSource) (*external.Server, error) {
	if s.Missing != nil {
		return nil, s.Missing
	}

	options := external.Options{
		Name: name, Prefix: s.Prefix, Timeout: s.Timeout, Concurrency: s.Concurrency, Logger: o.log,
	}

	var server *external.Server

	switch {
	case s.URL == config.InProcess:
		inside, err := o.handler(o.inProcess)
		if err != nil {
			return nil, err
		}

		server = external.ToolServer(options, "http://inprocess", o.inProcess.Token, memoryTransport{inside})
	case s.URL != "":
		server = external.ToolServer(options, s.URL, s.Token, nil)
	case s.MCP != "":
		server = external.MCP(options, s.MCP, s.Token)
	case len(s.Command) > 0:
		var env []string
		for key, value := range sorted(s.Env) {
			env = append(env, key+"="+value)
		}

		server = external.Command(options, s.Command, env)
	default:
		return nil, fmt.Errorf("%s.%s: must have exactly one of url, mcp and command", o.section, name)
	}

	o.closers = append(o.closers, server.Close)

	return server, nil
}

func (o *toolOpener) close() error {
	var errs []error
	for _, f := range o.closers {
		errs = append(errs, f())
	}

	return errors.Join(errs...)
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
