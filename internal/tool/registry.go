package tool

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Registry is the tools and toolsets of a deployment. It does not change once it is made; what its servers offer may.
type Registry struct {
	order    []string // names of the tools as registered
	tools    map[string]*checked
	toolsets toolsets
	servers  []Server
}

// NewRegistry makes a registry. Names must differ, schemas must be valid, and toolsets must name what exists. The name of a server is
// that of the toolset of its tools.
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

// addServers adds the toolsets of the servers. Their tools are known when they are listed.
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

// Toolsets lists the names that Select takes.
func (r *Registry) Toolsets() []string { return r.toolsets.names() }

// Selection is some tools of a registry, bound to no sandbox.
type Selection struct {
	registry      *Registry
	tools         []*checked // of the registry itself
	with, without picked
}

// Select picks the tools of the enabled toolsets that no disabled toolset has. No enabled toolset stands for Default. An unknown
// name is a fault.Invalid of field "enabled_toolsets" or "disabled_toolsets" that lists the known ones. It calls no server.
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

// Bind ties the tools to a sandbox and asks the selected servers for theirs. Its error is a failure of infrastructure of one of these
// servers, or a fault.Invalid where a server's tool has the name of another selected tool.
func (s *Selection) Bind(ctx context.Context, env Env) (Set, error) {
	b, err := s.ask(ctx, s.own(ctx, env))
	if err != nil {
		return nil, err
	}
	return b, nil
}

// own is the registry's own tools, tied to a sandbox.
func (s *Selection) own(ctx context.Context, env Env) *bound {
	return &bound{env: env, bounds: newBounds(ctx, env), tools: s.tools}
}

// ask adds to own the tools of the selected servers, which it asks beside each other. Where some of them fail it returns those of the others,
// and the first failure.
func (s *Selection) ask(ctx context.Context, own *bound) (*bound, error) {
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
		errs[i] = cmp.Or(errs[i], s.add(all, server, lists[i]))
	}
	return all, cmp.Or(errs...)
}

// add adds those of a server's tools that are selected and that model APIs accept.
func (s *Selection) add(b *bound, server Server, list []Definition) error {
	for _, d := range list {
		c, err := checkServerTool(d, server.Source)
		if err != nil || !s.with.has(d.Name, server.Name) || s.without.has(d.Name, server.Name) {
			continue
		}
		if s.registry.tools[d.Name] != nil || b.find(d.Name) != nil {
			return fault.New(fault.Invalid, "toolset %q: another tool is called %q as well: set tools.servers.%s.prefix", server.Name, d.Name, server.Name)
		}
		b.tools = append(b.tools, c)
	}
	return nil
}
