package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
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

// repaired returns invalid arguments without what many clients write otherwise: a null for a member that may be left out
// is left out, and a list or an object that came as its JSON text is decoded. The other members keep their text. The error
// says why they are invalid still.
func (s *schema) repaired(arguments json.RawMessage, object map[string]any) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(arguments, &members); err != nil {
		return nil, err
	}

	for name, property := range s.resolved.Schema().Properties {
		given, has := object[name]

		switch text, isText := given.(string); {
		case has && given == nil && property.Type != "" && !slices.Contains(s.resolved.Schema().Required, name):
			delete(object, name)
			delete(members, name)
		case isText && (property.Type == "array" || property.Type == "object"):
			if value, ok := fromText(text); ok {
				object[name], members[name] = value, json.RawMessage(text)
			}
		}
	}

	if err := s.resolved.Validate(object); err != nil {
		return nil, err
	}

	return json.Marshal(members)
}

// fromText decodes a JSON text within the bounds of arguments.
func fromText(text string) (value any, ok bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}

	err := json.NewDecoder(jsoninput.NewReader(strings.NewReader(text), argumentLimits())).Decode(&value)

	return value, err == nil
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

	if s.resolved.Validate(value) == nil {
		return arguments, nil
	}

	whole, err := s.repaired(arguments, object)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "validating root: ")
		// the library's text for a null
		return nil, errors.New(strings.ReplaceAll(text, "<invalid reflect.Value>", "null"))
	}

	return whole, nil
}
