package arguments

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/validation"
	"github.com/rolloutd/rolloutd/internal/text"
)

// maxExcerpt bounds the part of an invalid value that an error repeats, in characters.
const maxExcerpt = 60

// expected describes the values of a schema.
func expected(s *jsonschema.Schema) string {
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
		return "a list; each item " + expected(s.Items)
	default:
		if s.AdditionalProperties != nil && s.Properties == nil {
			return "an object; each value " + expected(s.AdditionalProperties)
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

// excerpt returns an invalid value, shortened.
func excerpt(path string, v any) string {
	if slices.Contains(secrets, path) {
		return fmt.Sprintf("a %T", v)
	}

	switch v := v.(type) {
	case string:
		return shorten(fmt.Sprintf("%q", text.Head(v, maxExcerpt+1)))
	case []any:
		if len(v) > maxExcerpt {
			return fmt.Sprintf("a list of %d", len(v))
		}
	case map[string]any:
		if len(v) > maxExcerpt {
			return fmt.Sprintf("an object of %d", len(v))
		}
	}

	raw, err := json.Marshal(validation.Excerpt(v))
	if err != nil {
		return fmt.Sprintf("a %T", v)
	}

	return shorten(string(raw))
}

func shorten(s string) string {
	if short := text.Head(s, maxExcerpt); short != s {
		return short + "…"
	}

	return s
}
