package arguments

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// SchemaOf returns the schema of a tool's arguments from their Go type, with the non-zero fields of
// defaults as defaults.
func SchemaOf[T any](defaults T) (*jsonschema.Schema, error) {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		return nil, fmt.Errorf("schema of %T: %w", defaults, err)
	}

	return s, publish(s, defaults)
}

// publish writes the non-zero fields of defaults into the schema.
func publish(s *jsonschema.Schema, defaults any) error {
	raw, err := json.Marshal(defaults)
	if err != nil {
		return fmt.Errorf("defaults of %T: %w", defaults, err)
	}

	var set map[string]json.RawMessage
	if err := json.Unmarshal(raw, &set); err != nil {
		return fmt.Errorf("defaults of %T: %w", defaults, err)
	}

	for name, value := range set {
		if p := s.Properties[name]; p != nil && !slices.Contains(s.Required, name) {
			p.Default = value
		}
	}

	return nil
}
