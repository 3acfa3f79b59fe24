package taskset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/rolloutd/rolloutd/internal/input/yamlinput"
	"go.yaml.in/yaml/v3"
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
		return Task{}, taskFile().Explain(err)
	}

	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Task{}, errors.New("a task file holds one task: remove the second document after ---")
	}

	return t, t.check(lines(text))
}

// taskFile describes task files for the errors about them.
func taskFile() yamlinput.File {
	return yamlinput.File{
		Type:  reflect.TypeFor[Task](),
		Noun:  "a task",
		Shape: "a mapping with fields such as instruction and verify",
	}
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
