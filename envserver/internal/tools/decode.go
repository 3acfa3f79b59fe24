package tools

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// decode checks a call's arguments against the tool's schema and fills the Go value, which holds the defaults already. It
// refuses with fault.Invalid; the message names every wrong argument and says what would be right. Numbers and booleans
// that come as strings are taken, as the original servers take them, and null stands for "not given".
func decode(tool string, s *jsonschema.Schema, args map[string]any, into any) error {
	if !pyjson.Within(args, 0, maxArguments) {
		return fault.New(fault.Invalid, "arguments of %s: more than %d bytes of text", tool, maxArguments)
	}
	c := coercer{tool: tool}
	clean := c.object("", s, args)
	if err := c.fault(); err != nil {
		return err
	}
	raw, err := json.Marshal(clean)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "arguments of %s", tool)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fault.Wrap(fault.Invalid, err, "arguments of %s", tool)
	}
	return nil
}

// maxArguments bounds the text of a call's arguments, in bytes: what a task may hold, and room for the rest.
const maxArguments = rollout.MaxTaskBytes + 256<<10

// coercer collects what is wrong, in the order of the schema.
type coercer struct {
	tool  string
	wrong []*fault.Error // the first maxWrong
	more  int            // beyond those
}

// Bounds of a refusal: every value of a call may be wrong, and every name the caller's own.
const (
	maxWrong = 20
	maxName  = 100 // characters
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

func (c *coercer) refuse(path, format string, args ...any) any {
	if len(c.wrong) == maxWrong {
		c.more++
		return nil
	}
	c.wrong = append(c.wrong, fault.Field(path, format, args...))
	return nil
}

// object takes the fields that the schema knows and refuses the others.
func (c *coercer) object(path string, s *jsonschema.Schema, obj map[string]any) map[string]any {
	if s.Properties == nil {
		return c.mapping(path, s, obj)
	}
	out := map[string]any{}
	for _, name := range s.PropertyOrder {
		v := obj[name]
		switch {
		case v != nil:
			out[name] = c.value(join(path, name), s.Properties[name], v)
		case slices.Contains(s.Required, name):
			c.refuse(join(path, name), "missing: want %s", want(s.Properties[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		if s.Properties[name] == nil {
			c.refuse(join(path, name), "unknown argument: %s takes %s", c.owner(path), strings.Join(s.PropertyOrder, ", "))
		}
	}
	return out
}

// mapping takes an object whose keys are the caller's own.
func (c *coercer) mapping(path string, s *jsonschema.Schema, obj map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(obj)) {
		out[k] = c.value(fmt.Sprintf("%s[%q]", path, text.Head(k, maxName)), s.AdditionalProperties, obj[k])
	}
	return out
}

func (c *coercer) owner(path string) string {
	if path == "" {
		return c.tool
	}
	return path
}

func join(path, name string) string {
	if path == "" {
		return text.Head(name, maxName)
	}
	return path + "." + text.Head(name, maxName)
}
