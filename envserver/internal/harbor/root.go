package harbor

import (
	"context"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// instruction is the argument by which a call of the engine's run_rollout has a task of its own.
const instruction = "instruction"

// Beside is the engine's table with HarborEnv's tools beside it. The tool run_rollout, which both have, takes the arguments of either: one
// that only HarborEnv knows makes a call HarborEnv's.
func (e *Env) Beside() (*tools.Table, error) {
	own, err := e.Table()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(e.o.Table.List())
	for _, theirs := range own.List() {
		if i := slices.IndexFunc(all, func(t tools.Tool) bool { return t.Name == theirs.Name }); i >= 0 {
			all[i] = either(all[i], theirs)
		} else {
			all = append(all, theirs)
		}
	}
	return e.o.Table.Offering(all), nil
}

// either is the engine's tool, or HarborEnv's for a call with an argument that only HarborEnv knows.
func either(engine, theirs tools.Tool) tools.Tool {
	both := engine
	both.Description += " With split and task_index instead of an instruction it runs a task of a task set and returns a HarborRolloutResult."
	both.InputSchema = merged(engine.InputSchema, theirs.InputSchema)
	both.Run = func(ctx context.Context, c tools.Call) (*tools.Text, error) {
		name := foreign(c.Args, engine.InputSchema, theirs.InputSchema)
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

// foreign is the first argument that only HarborEnv knows; "": there is none.
func foreign(args map[string]any, engine, theirs *jsonschema.Schema) string {
	for _, name := range theirs.PropertyOrder {
		if _, given := args[name]; given && engine.Properties[name] == nil {
			return name
		}
	}
	return ""
}

// merged is a schema of the arguments of either tool. HarborEnv's have no defaults in it: a client that fills them in would
// change what its call means. Of an argument that both have, the engine's description is more exact.
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
		case p.Type != known.Type && p.Type != "": // an object of the engine's is a name of HarborEnv's
			s.Properties[name] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{known, &p}}
		}
	}
	return &s
}
