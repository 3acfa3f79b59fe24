package harbor

import (
	"context"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// instruction is the argument that marks a call of the engine's own run_rollout.
const instruction = "instruction"

// Combined returns the engine's table with HarborEnv's tools added. Both have a tool run_rollout; the
// combined one takes the arguments of either. A call with an argument that only HarborEnv knows is
// HarborEnv's.
func (e *Env) Combined() (*tools.Table, error) {
	own, err := e.Table()
	if err != nil {
		return nil, err
	}

	all := slices.Clone(e.o.Table.List())
	for _, theirs := range own.List() {
		if i := slices.IndexFunc(all, func(t tools.Tool) bool { return t.Name == theirs.Name }); i >= 0 {
			all[i] = combine(all[i], theirs)
		} else {
			all = append(all, theirs)
		}
	}

	return e.o.Table.WithTools(all), nil
}

// combine returns a tool that runs HarborEnv's tool for calls with an argument that only HarborEnv knows,
// and the engine's tool for others.
func combine(engine, theirs tools.Tool) tools.Tool {
	both := engine
	both.Description += " With split and task_index instead of an instruction it runs a task of a task set and returns a HarborRolloutResult."
	both.InputSchema = merged(engine.InputSchema, theirs.InputSchema)
	both.Run = func(ctx context.Context, c tools.Call) (*tools.Text, error) {
		name := harborOnly(c.Args, engine.InputSchema, theirs.InputSchema)
		switch {
		case name == "":
			return engine.Run(ctx, c)
		case c.Args[instruction] != nil:
			return nil, fault.Field(name, "does not go with instruction: give instruction, or split and task_index")
		default:
			return theirs.Run(ctx, c)
		}
	}

	return both
}

// harborOnly returns the first argument that only HarborEnv knows; "": none.
func harborOnly(args map[string]any, engine, theirs *jsonschema.Schema) string {
	for _, name := range theirs.PropertyOrder {
		if _, given := args[name]; given && engine.Properties[name] == nil {
			return name
		}
	}

	return ""
}

// merged returns a schema of the arguments of both tools. It omits HarborEnv's defaults: a client that
// fills them in would turn its call into one of HarborEnv. An argument of both keeps the engine's
// description, which is more exact.
func merged(engine, theirs *jsonschema.Schema) *jsonschema.Schema {
	s := *engine
	s.Properties, s.PropertyOrder = maps.Clone(engine.Properties), slices.Clone(engine.PropertyOrder)
	s.Required = nil

	for _, name := range theirs.PropertyOrder {
		p := *theirs.Properties[name]
		p.Default = nil

		known := s.Properties[name]
		switch {
		case known == nil:
			s.Properties[name], s.PropertyOrder = &p, append(s.PropertyOrder, name)
		case p.Type != known.Type && p.Type != "": // an object for the engine, a name for HarborEnv
			s.Properties[name] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{known, &p}}
		}
	}

	return &s
}
