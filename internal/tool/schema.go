package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/jsonlimit"
)

// argumentLimits bound the arguments of one call.
func argumentLimits() jsonlimit.Limits {
	return jsonlimit.Limits{Bytes: 8 << 20, Elements: 10_000, Depth: 64}
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
	resolved, err := s.Resolve(nil) // without a loader: a schema that refers to other documents is refused
	return &schema{resolved}, err
}

// check returns the arguments as one valid JSON object that fits the schema. The error describes the mistake for the policy.
func (s *schema) check(arguments json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = json.RawMessage("{}")
	}
	if !utf8.Valid(arguments) {
		arguments = bytes.ToValidUTF8(arguments, []byte("\uFFFD"))
	}
	decoder := json.NewDecoder(jsonlimit.NewReader(bytes.NewReader(arguments), argumentLimits()))
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not a JSON object: text follows it")
	}
	if _, ok := value.(map[string]any); !ok {
		return nil, errors.New("not a JSON object")
	}
	if err := s.resolved.Validate(value); err != nil {
		text := strings.TrimPrefix(err.Error(), "validating root: ")
		return nil, errors.New(strings.ReplaceAll(text, "<invalid reflect.Value>", "null")) // the library's text for a null
	}
	return arguments, nil
}
