package tool

import (
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Registry is the tools and toolsets of a deployment. It does not change once it is made.
type Registry struct {
	order    []string // names of the tools as registered
	tools    map[string]*checked
	toolsets toolsets
}

// NewRegistry makes a registry. Names must differ, schemas must be valid, and toolsets must name what exists.
func NewRegistry(tools []Tool, sets []Toolset) (*Registry, error) {
	r := &Registry{tools: map[string]*checked{}, toolsets: toolsets{}}
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
		_, twice := r.toolsets[s.Name]
		if s.Name == "" || s.Name == All || s.Name == star || twice {
			return nil, fault.New(fault.Invalid, "toolsets: the name %q is empty, reserved or defined twice", s.Name)
		}
		r.toolsets[s.Name] = s
	}
	return r, r.toolsets.check(r.tools)
}

// Toolsets lists the names that Select takes.
func (r *Registry) Toolsets() []string { return r.toolsets.names() }

// Selection is some tools of a registry, bound to no sandbox.
type Selection struct {
	tools []*checked
}

// Select picks the tools of the enabled toolsets that no disabled toolset has. No enabled toolset stands for Default. An unknown
// name is a fault.Invalid of field "enabled_toolsets" or "disabled_toolsets" that lists the known ones.
func (r *Registry) Select(enabled, disabled []string) (*Selection, error) {
	if len(enabled) == 0 {
		enabled = []string{Default}
	}
	with, err := r.toolsets.resolve("enabled_toolsets", enabled, r.order)
	if err != nil {
		return nil, err
	}
	without, err := r.toolsets.resolve("disabled_toolsets", disabled, r.order)
	if err != nil {
		return nil, err
	}
	s := &Selection{}
	for _, name := range r.order {
		if with[name] && !without[name] {
			s.tools = append(s.tools, r.tools[name])
		}
	}
	return s, nil
}

// Definitions lists the tools in the order of their registration.
func (s *Selection) Definitions() []Definition {
	list := make([]Definition, 0, len(s.tools))
	for _, t := range s.tools {
		list = append(list, t.definition)
	}
	return list
}

// Bind ties the tools to a sandbox.
func (s *Selection) Bind(env Env) Set {
	return &bound{selection: s, env: env}
}

func (s *Selection) find(name string) *checked {
	i := slices.IndexFunc(s.tools, func(t *checked) bool { return t.definition.Name == name })
	if i < 0 {
		return nil
	}
	return s.tools[i]
}
