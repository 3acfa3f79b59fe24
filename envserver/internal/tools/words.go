package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/internal/text"
)

// maxShown is how much of a wrong value an error repeats.
const maxShown = 60

// want says in words what a schema asks for.
func want(s *jsonschema.Schema) string {
	if len(s.Enum) > 0 {
		names := make([]string, len(s.Enum))
		for i, e := range s.Enum {
			names[i] = fmt.Sprintf("%q", e)
		}
		return strings.Join(names, " or ")
	}
	switch t := typeOf(s); t {
	case "string":
		if s.MinLength != nil {
			return "a non-empty string"
		}
		return "a string"
	case "integer":
		return "a whole number" + bounds(s)
	case "number":
		return "a finite number" + bounds(s)
	case "boolean":
		return "true or false"
	case "array":
		return "a list; each item " + want(s.Items)
	default:
		if s.AdditionalProperties != nil && s.Properties == nil {
			return "an object; each value " + want(s.AdditionalProperties)
		}
		return "an object"
	}
}

func bounds(s *jsonschema.Schema) string {
	var b strings.Builder
	if s.Minimum != nil {
		fmt.Fprintf(&b, " from %.0f", *s.Minimum)
	}
	if s.ExclusiveMinimum != nil {
		fmt.Fprintf(&b, " above %.0f", *s.ExclusiveMinimum)
	}
	if s.Maximum != nil {
		fmt.Fprintf(&b, " up to %.0f", *s.Maximum)
	}
	return b.String()
}

// secrets are the arguments whose values no message may repeat: messages end up in logs.
var secrets = []string{"api_key", "hf_token"}

// maxPublic is how much of a call's arguments is shown, in bytes of their text.
const maxPublic = 64 << 10

// Public is a call's arguments for showing: without the secret ones, and without any where they are long.
func Public(args map[string]any) map[string]any {
	if !pyjson.Within(args, 0, maxPublic) {
		return map[string]any{"…": "arguments of more than 64 KiB"}
	}
	out := maps.Clone(args)
	for _, name := range secrets {
		if v := out[name]; v != nil && v != "" {
			out[name] = "…"
		}
	}
	return out
}

// show repeats a wrong value, shortened.
func show(path string, v any) string {
	if slices.Contains(secrets, path) {
		return fmt.Sprintf("a %T", v)
	}
	switch v := v.(type) {
	case float64:
		return fmt.Sprint(v) // NaN and the infinities
	case string:
		return shorten(fmt.Sprintf("%q", text.Head(v, maxShown+1)))
	case []any:
		if len(v) > maxShown {
			return fmt.Sprintf("a list of %d", len(v))
		}
	case map[string]any:
		if len(v) > maxShown {
			return fmt.Sprintf("an object of %d", len(v))
		}
	}
	raw, err := json.Marshal(issue.Shown(v))
	if err != nil {
		return fmt.Sprintf("a %T", v)
	}
	return shorten(string(raw))
}

func shorten(s string) string {
	if short := text.Head(s, maxShown); short != s {
		return short + "…"
	}
	return s
}
