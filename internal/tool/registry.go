package tool

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Registry holds the tools and toolsets of a deployment. It is immutable; the tools of its servers may change.
type Registry struct {
	// names of the tools in the order of registration
	order    []string
	tools    map[string]*checked
	toolsets toolsets
	servers  []Server
}

// NewRegistry returns a registry. Names must be unique, schemas valid, and toolsets may name only existing
// tools. A server's name is also that of the toolset of its tools.
func NewRegistry(tools []Tool, sets []Toolset, servers ...Server) (*Registry, error) {
	r := &Registry{tools: map[string]*checked{}, toolsets: toolsets{}, servers: servers}
	for _, t := range tools {
		name := t.Definition().Name
		if name == "" || r.tools[name] != nil {
			return nil, fault.New(fault.Invalid, "tools: the name %q is empty or defined twice", name)
		}

		c, err := newChecked(t)
		if err != nil {
			return nil, err
		}

		r.order, r.tools[name] = append(r.order, name), c
	}

	for _, s := range sets {
		if err := r.toolsets.add(s, ""); err != nil {
			return nil, err
		}
	}

	if err := r.toolsets.check(r.tools); err != nil {
		return nil, err
	}

	return r, r.addServers()
}

// addServers adds the toolsets of the servers, whose tools are not known yet.
func (r *Registry) addServers() error {
	for _, s := range r.servers {
		if err := r.toolsets.add(Toolset{Name: s.Name}, s.Name); err != nil {
			return err
		}

		for _, set := range s.Toolsets {
			if err := r.toolsets.add(set, s.Name); err != nil {
				return err
			}
		}
	}

	return nil
}

// Toolsets returns the names that Select accepts.
func (r *Registry) Toolsets() []string { return r.toolsets.names() }

// Selection is a selection of a registry's tools, not bound to a sandbox.
type Selection struct {
	registry *Registry

	// the registry's own
	tools         []*checked
	with, without picked
}

// Select returns the tools of the enabled toolsets without those of the disabled ones. No enabled toolset
// means Default. An unknown name is a fault.Invalid of field "enabled_toolsets" or "disabled_toolsets" that
// lists the known ones. It calls no server.
func (r *Registry) Select(enabled, disabled []string) (*Selection, error) {
	if len(enabled) == 0 {
		enabled = []string{Default}
	}

	with, err := r.toolsets.resolve("enabled_toolsets", enabled)
	if err != nil {
		return nil, err
	}

	without, err := r.toolsets.resolve("disabled_toolsets", disabled)
	if err != nil {
		return nil, err
	}

	s := &Selection{registry: r, with: with, without: without}
	for _, name := range r.order {
		if with.has(name, "") && !without.has(name, "") {
			s.tools = append(s.tools, r.tools[name])
		}
	}

	return s, nil
}

// Bind ties the tools to a sandbox and asks the selected servers for theirs. The error is an infrastructure
// failure of one of these servers, or a fault.Invalid if a server's tool has the name of another selected
// tool.
func (s *Selection) Bind(ctx context.Context, env Env) (Set, error) {
	b, err := s.askServers(ctx, s.builtinTools(ctx, env))
	if err != nil {
		return nil, err
	}

	return b, nil
}

// builtinTools returns the registry's own tools, tied to a sandbox.
func (s *Selection) builtinTools(ctx context.Context, env Env) *bound {
	return &bound{env: env, bounds: newBounds(ctx, env), tools: s.tools}
}

// askServers adds the tools of the selected servers to own. It asks them in parallel. If some fail, it returns the
// tools of the others and the first failure.
func (s *Selection) askServers(ctx context.Context, own *bound) (*bound, error) {
	servers := s.registry.servers
	lists, errs := make([][]Definition, len(servers)), make([]error, len(servers))

	var asking sync.WaitGroup

	for i, server := range servers {
		if s.with.asks(server.Name) {
			asking.Go(func() { lists[i], errs[i] = listed(ctx, own.env, server) })
		}
	}

	asking.Wait()

	all := &bound{env: own.env, bounds: own.bounds, tools: slices.Clone(own.tools)}
	for i, server := range servers {
		errs[i] = cmp.Or(errs[i], s.addTools(all, server, lists[i]))
	}

	return all, cmp.Or(errs...)
}

// addTools adds the selected tools of a server that model APIs accept.
func (s *Selection) addTools(b *bound, server Server, list []Definition) error {
	for _, d := range list {
		c, err := checkServerTool(d, server.Source)
		if err != nil || !s.with.has(d.Name, server.Name) || s.without.has(d.Name, server.Name) {
			continue
		}

		if s.registry.tools[d.Name] != nil || b.find(d.Name) != nil {
			return fault.New(fault.Invalid,
				"toolset %q: another tool is called %q as well: set tools.servers.%s.prefix",
				server.Name, d.Name, server.Name)
		}

		b.tools = append(b.tools, c)
	}

	return nil
}
