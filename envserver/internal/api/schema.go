package api

import (
	"github.com/swaggest/jsonschema-go"
)

// SchemaOf is the schema of a model in the draft that the reference writes, which has its definitions under $defs.
func SchemaOf(model any) (map[string]any, error) {
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
