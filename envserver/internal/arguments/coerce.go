package arguments

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
)

// typeOf returns the one type of a schema besides null.
func typeOf(s *jsonschema.Schema) string {
	if s.Type != "" {
		return s.Type
	}

	for _, t := range s.Types {
		if t != "null" {
			return t
		}
	}

	return ""
}

func inBounds(s *jsonschema.Schema, f float64) bool {
	return (s.Minimum == nil || f >= *s.Minimum) && (s.ExclusiveMinimum == nil || f > *s.ExclusiveMinimum) &&
		(s.Maximum == nil || f <= *s.Maximum)
}

// value stores v in the Go value, converted to the schema's type, or refuses it.
func (c *coercer) value(path string, s *jsonschema.Schema, v any, to reflect.Value) {
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}

	v = c.fromText(s, v)
	switch typeOf(s) {
	case "object":
		if m, ok := v.(map[string]any); ok {
			c.object(path, s, m, to)
			return
		}
	case "array":
		if list, ok := v.([]any); ok {
			c.list(path, s.Items, list, to)
			return
		}
	default:
		if out, ok := scalar(s, v); ok {
			to.Set(reflect.ValueOf(out).Convert(to.Type()))
			return
		}
	}

	c.refuse(path, "must be %s, got %s", expected(s), excerpt(path, v))
}

// maxFromText bounds the values of all lists and objects of a call that came as text.
const maxFromText = 100_000

// fromText decodes a list or an object that the client sent as its JSON text, as many clients of models do.
// It returns any other value unchanged.
func (c *coercer) fromText(s *jsonschema.Schema, v any) any {
	text, isText := v.(string)
	if kind := typeOf(s); !isText || kind != "array" && kind != "object" {
		return v
	}

	values, err := jsonvalue.Values([]byte(text))
	if c.fromTexts += values; err != nil || c.fromTexts > maxFromText {
		return v
	}

	decoded, err := jsonvalue.Decode([]byte(text))
	if err != nil {
		return v
	}

	return decoded
}

func (c *coercer) list(path string, items *jsonschema.Schema, list []any, to reflect.Value) {
	to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))

	for i, v := range list {
		c.value(fmt.Sprintf("%s[%d]", path, i), items, v, to.Index(i))
	}
}

func scalar(s *jsonschema.Schema, v any) (any, bool) {
	switch typeOf(s) {
	case "string":
		if n, isNumber := v.(json.Number); isNumber && slices.Contains(s.Types, "integer") {
			v = n.String()
		}

		str, ok := v.(string)
		ok = ok && (len(s.Enum) == 0 || slices.Contains(s.Enum, v))

		return str, ok && (s.MinLength == nil || strings.TrimSpace(str) != "")
	case "boolean":
		return boolean(v)
	default:
		f, ok := number(v)

		ok = ok && inBounds(s, f)
		if typeOf(s) == "integer" {
			return int64(f), ok && f == math.Trunc(f) && math.Abs(f) <= 1<<53
		}

		return f, ok
	}
}

func boolean(v any) (bool, bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case string:
		s := strings.ToLower(v)
		return s == "true", s == "true" || s == "false"
	case json.Number:
		return v == "1", v == "1" || v == "0"
	default:
		return false, false
	}
}

// number accepts finite numbers, also as strings.
func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if s, isString := v.(string); isString {
		n, ok = json.Number(strings.TrimSpace(s)), true
	}

	f, err := n.Float64()

	return f, ok && err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}
