package tool

import (
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Default is the toolset of a selection that names none.
const Default = "default"

// Toolset is a named group of tools.
type Toolset struct {
	Name     string
	Tools    []string
	Includes []string // names of other toolsets
}

// Names of the toolset that holds every tool. No toolset may include it.
const (
	All  = "all"
	star = "*"
)

// toolsets resolves names of toolsets to names of tools.
type toolsets map[string]Toolset

// names lists the toolsets, sorted.
func (t toolsets) names() []string { return append(slices.Sorted(maps.Keys(t)), All) }

// resolve returns the tools of the named toolsets and of all that they include. field is the input that named them.
func (t toolsets) resolve(field string, names []string, all []string) (map[string]bool, error) {
	found, visited := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		if name == All || name == star {
			for _, tool := range all {
				found[tool] = true
			}
			continue
		}
		if _, ok := t[name]; !ok {
			return nil, fault.Field(field, "unknown toolset %q, want one of %s", name, strings.Join(t.names(), ", "))
		}
		t.collect(name, found, visited)
	}
	return found, nil
}

// collect adds the tools of one toolset. Includes may form a cycle: each toolset is visited once.
func (t toolsets) collect(name string, found, visited map[string]bool) {
	if visited[name] {
		return
	}
	visited[name] = true
	for _, tool := range t[name].Tools {
		found[tool] = true
	}
	for _, include := range t[name].Includes {
		t.collect(include, found, visited)
	}
}

// check is an error when a toolset names what does not exist.
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
