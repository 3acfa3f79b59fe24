package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

// argumentLimits bound the arguments of one call.
func argumentLimits() jsoninput.Limits {
	return jsoninput.Limits{Bytes: 8 << 20, Elements: 10_000, Depth: 64}
}

// checked is a tool with its compiled schema.
type checked struct {
	tool       Tool
	definition Definition
	schema     *schema
}

func newChecked(t Tool) (*checked, error) {
	d := t.Definition()

	s, err := newSchema(d.Parameters)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "tool %q: parameters", d.Name)
	}

	return &checked{tool: t, definition: d, schema: s}, nil
}

// fromTexts decodes the lists and objects among invalid arguments that came as their JSON texts, as many
// clients send them, and returns these texts by name.
func (s *schema) fromTexts(object map[string]any) map[string]json.RawMessage {
	found := map[string]json.RawMessage{}

	for name, property := range s.resolved.Schema().Properties {
		text, isText := object[name].(string)
		if !isText || property.Type != "array" && property.Type != "object" {
			continue
		}

		var value any
		if json.Valid([]byte(text)) &&
			json.NewDecoder(jsoninput.NewReader(strings.NewReader(text), argumentLimits())).Decode(&value) == nil {
			object[name], found[name] = value, json.RawMessage(text)
		}
	}

	return found
}

// withMembers replaces members of an object. The others keep their text.
func withMembers(object json.RawMessage, members map[string]json.RawMessage) (json.RawMessage, error) {
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, err
	}

	maps.Copy(all, members)

	return json.Marshal(all)
}

// schema checks arguments.
type schema struct{ resolved *jsonschema.Resolved }

func newSchema(text json.RawMessage) (*schema, error) {
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}

	if s.Type != "object" {
		return nil, errors.New("must be a schema of type object")
	}
	// without a loader: a schema that refers to other documents is refused
	resolved, err := s.Resolve(nil)

	return &schema{resolved}, err
}

// check returns the arguments as one valid JSON object that fits the schema. The error describes the
// mistake for the policy.
func (s *schema) check(arguments json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = json.RawMessage("{}")
	}

	if !utf8.Valid(arguments) {
		arguments = bytes.ToValidUTF8(arguments, []byte("\uFFFD"))
	}

	decoder := json.NewDecoder(jsoninput.NewReader(bytes.NewReader(arguments), argumentLimits()))

	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not a JSON object: text follows it")
	}

	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("not a JSON object")
	}

	if err := s.resolved.Validate(value); err != nil {
		if texts := s.fromTexts(object); len(texts) > 0 && s.resolved.Validate(value) == nil {
			return withMembers(arguments, texts)
		}

		text := strings.TrimPrefix(err.Error(), "validating root: ")
		// the library's text for a null
		return nil, errors.New(strings.ReplaceAll(text, "<invalid reflect.Value>", "null"))
	}

	return arguments, nil
}
