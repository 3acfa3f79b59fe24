package tool

import (
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Default is the toolset of a selection without enabled toolsets.
const Default = "default"

// Toolset is a named group of tools.
type Toolset struct {
	Name  string
	Tools []string

	// names of other toolsets
	Includes []string
}

// Names of the toolset with every tool. No toolset may include it.
const (
	All  = "all"
	star = "*"
)

// toolsets resolves names of toolsets to names of tools.
type toolsets map[string]ownedSet

// ownedSet is a Toolset and its server; "": the registry itself.
type ownedSet struct {
	Toolset
	server string
}

// add defines a toolset.
func (t toolsets) add(s Toolset, server string) error {
	_, twice := t[s.Name]
	if s.Name == "" || s.Name == All || s.Name == star || twice {
		return fault.New(fault.Invalid, "toolsets: the name %q is empty, reserved or defined twice", s.Name)
	}

	t[s.Name] = ownedSet{s, server}

	return nil
}

// names returns the toolsets, sorted.
func (t toolsets) names() []string { return append(slices.Sorted(maps.Keys(t)), All) }

// picked is the contents of some toolsets.
type picked struct {
	all bool

	// names by server; "": the registry's own
	tools map[string]map[string]bool

	// toolsets; a server's name stands for all its tools
	visited map[string]bool
}

// has reports whether a tool of a server is picked.
func (p picked) has(tool, server string) bool {
	return p.all || server != "" && p.visited[server] || p.tools[server][tool]
}

// asks reports whether a tool of the server may be picked.
func (p picked) asks(server string) bool {
	return p.all || p.visited[server] || len(p.tools[server]) > 0
}

// resolve returns the contents of the named toolsets and of those they include. field is the input that named them.
func (t toolsets) resolve(field string, names []string) (picked, error) {
	p := picked{tools: map[string]map[string]bool{}, visited: map[string]bool{}}

	for _, name := range names {
		if name == All || name == star {
			p.all = true
			continue
		}

		if _, ok := t[name]; !ok {
			return p, fault.Field(field, "unknown toolset %q: must be one of %s", name, strings.Join(t.names(), ", "))
		}

		t.collect(name, p)
	}

	return p, nil
}

// collect adds the tools of one toolset. Includes may form a cycle: each toolset is visited once.
func (t toolsets) collect(name string, p picked) {
	if p.visited[name] {
		return
	}

	p.visited[name] = true

	server := t[name].server
	for _, tool := range t[name].Tools {
		if p.tools[server] == nil {
			p.tools[server] = map[string]bool{}
		}

		p.tools[server][tool] = true
	}

	for _, include := range t[name].Includes {
		t.collect(include, p)
	}
}

// check returns an error if a toolset names something that does not exist.
func (t toolsets) check(known map[string]*checked) error {
	for _, set := range t {
		for _, tool := range set.Tools {
			if known[tool] == nil {
				return fault.New(fault.Invalid, "toolset %q: unknown tool %q", set.Name, tool)
			}
		}

		for _, include := range set.Includes {
			if _, ok := t[include]; !ok {
				return fault.New(fault.Invalid, "toolset %q: unknown toolset %q in includes", set.Name, include)
			}
		}
	}

	return nil
}
