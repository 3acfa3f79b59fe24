package validation

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/text"
)

// Checker validates the fields of one object in the order its model declares them, as the reference lists its findings.
// Every method checks one field, records it as known, and returns its value if it is valid.
type Checker struct {
	obj     map[string]any
	loc     []any
	checked map[string]bool
	issues  List
}

// Check returns a Checker of obj; loc is the path to it.
func Check(obj map[string]any, loc ...any) *Checker {
	return &Checker{obj: obj, loc: loc, checked: map[string]bool{}}
}

// Found returns the issues. With closed set, unknown fields are issues too.
func (c *Checker) Found(closed bool) List {
	if !closed {
		return c.issues
	}

	var extra []string

	for k := range c.obj {
		if !c.checked[k] {
			extra = append(extra, k)
		}
	}

	slices.Sort(extra)

	room := max(maxIssues-len(c.issues), 0)
	for _, k := range extra[:min(room, len(extra))] {
		c.addIssue(k, "extra_forbidden", "Extra inputs are not permitted", nil)
	}

	if more := len(extra) - room; more > 0 {
		c.issues = append(c.issues, Issue{
			Type: "extra_forbidden",
			Loc:  slices.Clone(c.loc),
			Msg:  fmt.Sprintf("Extra inputs are not permitted: and %d more", more),
		})
	}

	return c.issues
}

func (c *Checker) addIssue(field, kind, msg string, ctx map[string]any) {
	input, present := c.obj[field]
	if !present {
		input = c.obj
	}

	c.issues = append(c.issues, Issue{Type: kind, Loc: c.path(field), Msg: msg, Input: Excerpt(input), Ctx: ctx})
}

func (c *Checker) path(field string) []any {
	return append(slices.Clone(c.loc), text.Head(field, maxName))
}

func (c *Checker) get(field string, required bool) (any, bool) {
	c.checked[field] = true

	v, present := c.obj[field]
	if !present && required {
		c.addIssue(field, "missing", "Field required", nil)
	}

	return v, present
}

// Any returns a field of any type.
func (c *Checker) Any(field string) any {
	v, _ := c.get(field, false)
	return v
}

// Literal checks a field whose only value is want. It may be absent unless it is required.
func (c *Checker) Literal(field, want string, required bool) {
	if v, present := c.get(field, required); present && v != want {
		c.addIssue(field, "literal_error", "Input should be '"+want+"'", map[string]any{"expected": "'" + want + "'"})
	}
}

// String returns a required string.
func (c *Checker) String(field string) string {
	v, present := c.get(field, true)

	s, ok := v.(string)
	if present && !ok {
		c.addIssue(field, "string_type", "Input should be a valid string", nil)
	}

	return s
}

// OptionalString returns a string of at most maxLen characters; it may be null or absent.
func (c *Checker) OptionalString(field string, maxLen int) (string, bool) {
	v, _ := c.get(field, false)
	if v == nil {
		return "", false
	}

	s, ok := v.(string)
	switch {
	case !ok:
		c.addIssue(field, "string_type", "Input should be a valid string", nil)
	case utf8.RuneCountInString(s) > maxLen:
		c.addIssue(
			field,
			"string_too_long",
			plural("String should have at most ", maxLen, " character"),
			map[string]any{"max_length": maxLen},
		)
	default:
		return s, true
	}

	return "", false
}

// OptionalBool returns a truth value, which may be null or absent. Unlike pydantic it refuses "true" and 1:
// it checks only fields that the reference does not have.
func (c *Checker) OptionalBool(field string) bool {
	v, _ := c.get(field, false)

	b, ok := v.(bool)
	if v != nil && !ok {
		c.addIssue(field, "bool_type", "Input should be a valid boolean", nil)
	}

	return b
}

// Dict returns an object.
func (c *Checker) Dict(field string, required bool) map[string]any {
	v, present := c.get(field, required)

	m, ok := v.(map[string]any)
	if present && !ok {
		c.addIssue(field, "dict_type", "Input should be a valid dictionary", nil)
	}

	return m
}
