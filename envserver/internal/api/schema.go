package api

import (
	"github.com/swaggest/jsonschema-go"
)

// SchemaOf returns the schema of a model in the draft that the reference server uses, which has its
// definitions under $defs.
func SchemaOf(model any) (map[string]any, error) {
	var r jsonschema.Reflector

	s, err := r.Reflect(
		model,
		jsonschema.InterceptDefName(componentName),
		jsonschema.DefinitionsPrefix("#/$defs/"),
		nullableByAnyOf,
		jsonschema.InterceptProp(dropTypeBesideAnyOf),
	)
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
