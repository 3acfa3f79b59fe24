package taskset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/internal/spelling"
)

// maxSize bounds a task file, in bytes.
const maxSize = 2 << 20

// OpenFile reads the task file at path. Errors name the file and the line.
func OpenFile(path string) (Task, error) {
	f, err := os.Open(path)
	if err != nil {
		return Task{}, err
	}
	defer f.Close()
	t, err := ReadYAML(f)
	if err == nil {
		err = t.findUploads(filepath.Dir(path))
	}
	if err != nil {
		return Task{}, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// ReadYAML reads one task in YAML. Errors name the line.
func ReadYAML(r io.Reader) (Task, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return Task{}, err
	}
	if len(text) > maxSize {
		return Task{}, fmt.Errorf("must be at most %d MiB", maxSize>>20)
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var t Task
	if err := dec.Decode(&t); errors.Is(err, io.EOF) {
		return Task{}, errors.New("the file is empty")
	} else if err != nil {
		return Task{}, rewordYAML(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Task{}, errors.New("a task file holds one task: remove the second document after ---")
	}
	return t, t.check(lines(text))
}

// rewordYAML removes Go types from the decoder's errors.
func rewordYAML(err error) error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	msg = strings.TrimPrefix(msg, "unmarshal errors:\n  ")
	msg = typeYAML.ReplaceAllStringFunc(msg, func(found string) string {
		m := typeYAML.FindStringSubmatch(found)
		kind := map[string]string{"seq": "a list", "map": "a mapping"}[m[1]]
		return mustBe(m[3], cmp.Or(kind, strings.TrimSpace(m[2]), m[1]))
	})
	msg = unknownYAML.ReplaceAllStringFunc(msg, func(found string) string { return unknownField(unknownYAML.FindStringSubmatch(found)[1]) })
	return errors.New(strings.ReplaceAll(msg, "\n  ", "; "))
}

// typeYAML is the decoder's error for a value of another type: the YAML type, the value of a scalar, and the Go type of the field.
var typeYAML = regexp.MustCompile("cannot unmarshal !!(\\w+)( `[^`]*`)? into ([\\w.\\[\\]]+)")

// mustBe is the error text for a value that does not fit the Go type of its field.
func mustBe(goType, got string) string {
	names := map[string]string{
		"string": "a string", "bool": "true or false", "int": "a whole number", "float64": "a number",
		"[]string": "a list of strings", "[]float64": "a list of numbers", "map[string]string": "a mapping of strings to strings",
		"taskset.Task": "a mapping with fields such as instruction and verify",
	}
	return fmt.Sprintf("must be %s, got %s", cmp.Or(names[goType], "a mapping"), got)
}

// unknownYAML is the decoder's error for a field that Task does not have.
var unknownYAML = regexp.MustCompile(`field (\S+) not found in type taskset\.Task`)

// unknownField is the error text for a field that tasks do not have. It names the field that may be meant.
func unknownField(name string) string {
	var known []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Task]()) {
		if tag := f.Tag.Get("yaml"); tag != "-" {
			known = append(known, tag)
		}
	}
	msg := fmt.Sprintf("field %s: no such field of a task", name)
	if near := spelling.Nearest(name, "", known); near != "" {
		msg += "; did you mean " + near + "?"
	}
	return msg
}

// lines returns the line of each top-level field.
func lines(text []byte) map[string]int {
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	out := map[string]int{}
	for i := 0; i+1 < len(doc.Content[0].Content); i += 2 {
		out[doc.Content[0].Content[i].Value] = doc.Content[0].Content[i].Line
	}
	return out
}
