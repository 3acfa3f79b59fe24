package google

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

// jsonSchema returns a schema of the API as a JSON schema: the API writes types in capitals, and has its
// own member for null.
func jsonSchema(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}

	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()

	var schema any
	if err := in.Decode(&schema); err != nil {
		return nil, err
	}

	return chat.Encode(lower(schema)), nil
}

// lower returns a schema with types in lower case, also in nested schemas. The depth was bounded when the
// request was read.
func lower(schema any) any {
	o, ok := schema.(map[string]any)
	if !ok {
		return schema
	}

	if kind, ok := o["type"].(string); ok {
		o["type"] = strings.ToLower(kind)
		if null, _ := o["nullable"].(bool); null {
			o["type"] = []any{o["type"], "null"}
		}
	}

	delete(o, "nullable")

	for _, key := range []string{"items", "additionalProperties"} {
		if v, ok := o[key]; ok {
			o[key] = lower(v)
		}
	}

	if all, ok := o["properties"].(map[string]any); ok {
		for name, one := range all {
			all[name] = lower(one)
		}
	}

	for _, key := range []string{"anyOf", "prefixItems"} {
		all, _ := o[key].([]any)
		for i := range all {
			all[i] = lower(all[i])
		}
	}

	return o
}
