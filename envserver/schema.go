package envserver

import (
	"github.com/swaggest/jsonschema-go"

	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// schemas makes the schemas of /schema from the Go types of the wire.
func schemas() (a schemaResponse, err error) {
	for _, m := range []struct {
		into  *map[string]any
		model any
	}{{&a.Action, callAction{}}, {&a.Observation, observationModel{}}, {&a.State, session.State{}}} {
		if *m.into, err = schemaOf(m.model); err != nil {
			return a, err
		}
	}
	return a, nil
}

// schemaOf is the schema of a model in the draft that the reference writes, which has its definitions under $defs.
func schemaOf(model any) (map[string]any, error) {
	var r jsonschema.Reflector
	s, err := r.Reflect(model, jsonschema.InterceptDefName(componentName), jsonschema.DefinitionsPrefix("#/$defs/"), envelop, jsonschema.InterceptProp(orNull))
	if err != nil {
		return nil, err
	}
	m, err := s.ToSchemaOrBool().ToSimpleMap()
	if defs, ok := m["definitions"]; ok {
		delete(m, "definitions")
		m["$defs"] = defs
	}
	return m, err
}
