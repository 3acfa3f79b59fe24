package arguments

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// Decode checks arguments against the schema of a Go type, and stores them in it. what names the call in errors.
func Decode[T any](what string, args map[string]any, into *T) error {
	s, err := SchemaOf(*into)
	if err != nil {
		return err
	}

	return DecodeBy(s, what, args, into)
}

// DecodeBy checks arguments against a schema and stores them in the Go value, which already has the
// defaults. The error is a fault.Invalid whose message names every invalid argument and what it must be.
// Numbers and booleans may be strings, as in the original servers, lists and objects may be their JSON
// texts, and null is the same as a missing argument.
func DecodeBy(s *jsonschema.Schema, what string, args map[string]any, into any) error {
	if !jsonvalue.Within(withoutFiles(args), 0, maxArguments) {
		return fault.New(fault.Invalid, "arguments of %s: more than %d bytes of text", what, maxArguments)
	}

	c := coercer{what: what}
	c.object("", s, args, reflect.ValueOf(into).Elem())

	return c.fault()
}

// withoutFiles returns the arguments without the files of the task. The store holds these; the maximum size
// of a request bounds them.
func withoutFiles(args map[string]any) map[string]any {
	if args[uploadFiles] == nil {
		return args
	}

	args = maps.Clone(args)
	delete(args, uploadFiles)

	return args
}

const uploadFiles = "upload_files"

// maxArguments bounds the text of a call's arguments, in bytes: the bound of a task, and room for the rest.
const maxArguments = rollout.MaxTaskBytes + 256<<10

// coercer collects the invalid arguments, in the order of the schema.
type coercer struct {
	// names the call
	what string

	// the first maxWrong
	wrong []*fault.Error

	// beyond those
	more int

	// values of lists and objects that came as text
	fromTexts int
}

// Bounds of a refusal: every value of a call may be invalid, and every name chosen by the caller.
const (
	maxWrong = 20

	// characters
	maxName = 100
)

func (c *coercer) fault() error {
	switch len(c.wrong) {
	case 0:
		return nil
	case 1:
		return c.wrong[0]
	}

	lines := make([]string, len(c.wrong))
	for i, w := range c.wrong {
		lines[i] = w.Msg
	}

	if c.more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", c.more))
	}

	return &fault.Error{Kind: fault.Invalid, Field: c.wrong[0].Field,
		Msg: fmt.Sprintf("%d invalid arguments: %s", len(c.wrong)+c.more, strings.Join(lines, "; "))}
}

func (c *coercer) refuse(path, format string, args ...any) {
	if len(c.wrong) == maxWrong {
		c.more++
		return
	}

	c.wrong = append(c.wrong, fault.Field(path, format, args...))
}

// object stores the fields of the schema in a struct or a map, and refuses other fields.
func (c *coercer) object(path string, s *jsonschema.Schema, obj map[string]any, to reflect.Value) {
	if s.Properties == nil {
		c.mapping(path, s, obj, to)
		return
	}

	put := into(to)

	for _, name := range s.PropertyOrder {
		v := obj[name]
		switch {
		case v != nil:
			put(name, func(field reflect.Value) { c.value(join(path, name), s.Properties[name], v, field) })
		case slices.Contains(s.Required, name):
			c.refuse(join(path, name), "is missing: must be %s", expected(s.Properties[name]))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(obj)) {
		if s.Properties[name] == nil {
			c.refuse(join(path, name), "unknown argument: %s takes %s",
				c.owner(path), strings.Join(s.PropertyOrder, ", "))
		}
	}
}

// mapping stores an object whose keys the caller chooses.
func (c *coercer) mapping(path string, s *jsonschema.Schema, obj map[string]any, to reflect.Value) {
	put := into(to)
	for _, k := range slices.Sorted(maps.Keys(obj)) {
		put(k, func(value reflect.Value) {
			c.value(fmt.Sprintf("%s[%q]", path, text.Head(k, maxName)), s.AdditionalProperties, obj[k], value)
		})
	}
}

// into returns a function that stores a value by name, in a struct by the names of its JSON fields, or in a map.
func into(to reflect.Value) func(name string, fill func(reflect.Value)) {
	if to.Kind() == reflect.Struct {
		fields := map[string]reflect.Value{}

		for _, f := range reflect.VisibleFields(to.Type()) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				fields[name] = to.FieldByIndex(f.Index)
			}
		}

		return func(name string, fill func(reflect.Value)) { fill(fields[name]) }
	}

	if to.IsNil() {
		to.Set(reflect.MakeMap(to.Type()))
	}

	return func(name string, fill func(reflect.Value)) {
		value := reflect.New(to.Type().Elem()).Elem()
		fill(value)
		to.SetMapIndex(reflect.ValueOf(name), value)
	}
}

func (c *coercer) owner(path string) string {
	if path == "" {
		return c.what
	}

	return path
}

func join(path, name string) string {
	if path == "" {
		return text.Head(name, maxName)
	}

	return path + "." + text.Head(name, maxName)
}
