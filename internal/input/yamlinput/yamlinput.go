// Package yamlinput puts the errors of the YAML decoder in the words of YAML, for the author of a file:
// with the line, without Go types, and with the field that a misspelled one may mean.
package yamlinput

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// File describes the files of one kind.
type File struct {
	// into which they are decoded
	Type reflect.Type

	// in "no such field of …"
	Noun string

	// what a Type is, in "must be …"
	Shape string
	// Secret leaves values out of the errors, since a value may be a misplaced token.
	Secret bool

	// paths of values of a wrong type, by line; nil: not known
	places map[int][]string
}

var (
	// wrongType is the decoder's error for a value of another type: the YAML type, the value of a scalar,
	// and the Go type of the field.
	wrongType = regexp.MustCompile("(?m)cannot unmarshal !!(\\w+)( `[^`]*`)? into (.+)$")
	// wrongValue is the same with its line.
	wrongValue = regexp.MustCompile(`(?s)^(line (\d+): )(cannot unmarshal .*)$`)
	// unknownField is the decoder's error for a field that a Go type does not have.
	unknownField = regexp.MustCompile(`(?m)field (\S+) not found in type (.+)$`)
)

// Explain rewords an error of the decoder; nil stays nil.
func (f File) Explain(err error) error {
	if err == nil {
		return nil
	}

	types := map[string]reflect.Type{}
	collect(types, f.Type)
	msg := wrongType.ReplaceAllStringFunc(f.text(err), func(found string) string {
		m := wrongType.FindStringSubmatch(found)

		return fmt.Sprintf("must be %s, got %s",
			f.expected(types[m[3]]), cmp.Or(strings.TrimSpace(m[2]), kinds()[m[1]], m[1]))
	})
	msg = unknownField.ReplaceAllStringFunc(msg, func(found string) string {
		m := unknownField.FindStringSubmatch(found)
		return f.Unknown(m[1], types[m[2]])
	})

	return errors.New(strings.ReplaceAll(msg, "\n  ", "; "))
}

// ExplainIn is Explain with the paths of the fields whose values have a wrong type. text is that of the file.
func (f File) ExplainIn(err error, text []byte) error {
	var document yaml.Node
	if err != nil && yaml.Unmarshal(text, &document) == nil {
		f.places = map[int][]string{}
		f.place(&document, f.Type, "")
	}

	return f.Explain(err)
}

// place records the path of each value that does not decode to its type, by line.
func (f File) place(n *yaml.Node, t reflect.Type, at string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	switch {
	case n.Kind == yaml.DocumentNode:
		f.place(n.Content[0], t, at)
	case n.Kind == yaml.AliasNode:
		f.place(n.Alias, t, at)
	case n.ShortTag() == "!!null" || t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()):
	case n.Kind == yaml.MappingNode && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map):
		for i := 0; i+1 < len(n.Content); i += 2 {
			if of := member(t, n.Content[i].Value); of != nil {
				f.place(n.Content[i+1], of, strings.TrimPrefix(at+"."+n.Content[i].Value, "."))
			}
		}
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, item := range n.Content {
			f.place(item, t.Elem(), fmt.Sprintf("%s[%d]", at, i))
		}
	case n.Kind != yaml.ScalarNode || n.Decode(reflect.New(t).Interface()) != nil:
		f.places[n.Line] = append(f.places[n.Line], at)
	}
}

// member is the type of a member of a mapping; nil: the type has no such member.
func member(t reflect.Type, name string) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}

	for _, field := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); tag == name && name != "-" {
			return field.Type
		}
	}

	return nil
}

// withPlace inserts the path of a field into the decoder's error about its value. The errors of a line are
// in the order of its values.
func (f File) withPlace(line string) string {
	m := wrongValue.FindStringSubmatch(line)
	if m == nil {
		return line
	}
	// digits
	number, _ := strconv.Atoi(m[2])

	paths := f.places[number]
	if len(paths) == 0 {
		return line
	}

	f.places[number] = paths[1:]
	if paths[0] == "" {
		return line
	}

	return m[1] + paths[0] + " " + m[3]
}

// text returns the decoder's error in one or more lines.
func (f File) text(err error) string {
	var several *yaml.TypeError
	if !errors.As(err, &several) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}

	lines := slices.Clone(several.Errors)
	for i, line := range lines {
		// a value may have backticks, too
		if before, rest, found := strings.Cut(line, " `"); f.Secret && found {
			lines[i] = before + rest[strings.LastIndex(rest, "`")+1:]
		}

		lines[i] = f.withPlace(lines[i])
	}

	return strings.Join(lines, "\n  ")
}

// kinds returns the names of YAML's types.
func kinds() map[string]string {
	return map[string]string{
		"seq":   "a list",
		"map":   "a mapping",
		"str":   "a string",
		"int":   "a whole number",
		"float": "a number",
		"bool":  "true or false",
		"null":  "nothing",
	}
}

// Unknown is the error text for a field that the type does not have.
func (f File) Unknown(name string, t reflect.Type) string {
	msg := fmt.Sprintf("field %s: no such field of %s", name, f.Noun)
	if near := NearestName(name, "", fields(t)); near != "" {
		msg += "; did you mean " + near + "?"
	}

	return msg
}

// expected describes the YAML values that decode to a type.
func (f File) expected(t reflect.Type) string {
	if t == nil {
		return "another type"
	}

	switch t.Kind() {
	case reflect.Slice:
		return "a list of " + plural(t.Elem())
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return "a mapping"
		}

		return "a mapping of " + plural(t.Key()) + " to " + plural(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Struct:
		if t == f.Type {
			return f.Shape
		}

		return "a mapping"
	}

	if t == reflect.TypeFor[time.Duration]() {
		return "a duration such as 30s"
	}

	return "a whole number"
}

func plural(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "strings"
	case reflect.Float64:
		return "numbers"
	case reflect.Int:
		return "whole numbers"
	default:
		return "mappings"
	}
}

// collect gathers the types below t by the names that the decoder's errors have.
func collect(types map[string]reflect.Type, t reflect.Type) {
	if types[t.String()] != nil {
		return
	}

	types[t.String()] = t
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collect(types, t.Elem())
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(t) {
			if field.IsExported() {
				collect(types, field.Type)
			}
		}
	}
}

// fields lists the YAML names of a struct's fields.
func fields(t reflect.Type) (names []string) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}

	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}

	return names
}
