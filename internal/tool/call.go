package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxID bounds the id of a call, in bytes.
const maxID = 256

// bound is the Set of one sandbox.
type bound struct {
	tools  []*checked
	env    Env
	bounds *bounds
}

// Definitions implements Set.
func (b *bound) Definitions() []Definition {
	list := make([]Definition, 0, len(b.tools))
	for _, t := range b.tools {
		list = append(list, t.definition)
	}

	return list
}

func (b *bound) find(name string) *checked {
	i := slices.IndexFunc(b.tools, func(t *checked) bool { return t.definition.Name == name })
	if i < 0 {
		return nil
	}

	return b.tools[i]
}

// Call implements Set.
func (b *bound) Call(ctx context.Context, c Call) (Result, error) {
	if c.ID == "" || len(c.ID) > maxID {
		return Result{}, fault.Field("id", "the id of a call must have 1 to %d bytes", maxID)
	}

	t := b.find(c.Name)
	if t == nil {
		return Failed(b.unknown(c.Name)), nil
	}

	arguments, err := t.schema.check(c.Arguments)
	if err != nil {
		return Failed(fmt.Sprintf("invalid arguments for %s: %v", c.Name, err)), nil
	}

	c.Arguments = arguments

	r, err := t.tool.Call(ctx, b.env, c)
	if err != nil {
		return r, err
	}

	return b.bounds.explain(ctx, c.ID, r)
}

func (b *bound) unknown(name string) string {
	var names []string
	for _, t := range b.tools {
		names = append(names, t.definition.Name)
	}

	if len(names) == 0 {
		return fmt.Sprintf("unknown tool %.100q: there are no tools", name)
	}

	return fmt.Sprintf("unknown tool %.100q: the tools are %s", name, strings.Join(names, ", "))
}
