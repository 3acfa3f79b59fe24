package taskset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

// Bounds of one line of a file of JSON lines.
const (
	maxLine     = 16 << 20
	maxElements = 100_000
	maxLevels   = 32
)

// openLines records the position and the id of each line of a file. The file stays open: a task is read
// again from its position.
func (s *Set) openLines() error {
	file, err := os.Open(s.path)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "task set")
	}

	s.close = file.Close
	lines := bufio.NewReaderSize(file, 1<<20)

	var offset int64

	for number := 1; ; number++ {
		line, size, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return fault.Wrap(fault.Invalid, err, "%s:%d", s.path, number)
		}

		if len(bytes.TrimSpace(line)) > 0 || size > maxLine {
			if err := s.full(); err != nil {
				return err
			}

			s.addTask(lineItem(file, fmt.Sprintf("%s:%d", s.path, number), number, line, offset, size))
		}

		offset += size
	}
}

// readLine returns a line and its size with the line break. For a line longer than maxLine it returns the size only.
func readLine(r *bufio.Reader) (line []byte, size int64, err error) {
	for {
		part, err := r.ReadSlice('\n')

		size += int64(len(part))
		if size <= maxLine {
			line = append(line, part...)
		} else {
			line = nil
		}

		switch {
		case err == nil, errors.Is(err, io.EOF) && size > 0:
			return line, size, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, 0, err
		}
	}
}

// lineItem is the task of a line. Its name is its id, or the number of the line if it has none.
func lineItem(file io.ReaderAt, source string, number int, line []byte, offset, size int64) item {
	it := item{name: fmt.Sprintf("line-%d", number), source: source}
	if size > maxLine {
		it.err = fault.New(fault.Invalid, "%s: must be a line of at most %d MiB", source, maxLine>>20)
		return it
	}

	var about struct {
		ID string `json:"id"`
	}
	// a broken line is reported when it is read
	if json.Unmarshal(bytes.TrimPrefix(line, byteOrderMark()), &about) == nil && about.ID != "" {
		it.name = about.ID
	}

	it.read = func() (Task, error) {
		text := make([]byte, size)
		if n, err := file.ReadAt(text, offset); n < len(text) {
			return Task{}, at(source, err)
		}

		t, err := readJSON(text)
		if err != nil {
			return Task{}, at(source, err)
		}

		return t, nil
	}

	return it
}

// byteOrderMark is what some editors write at the beginning of a file in UTF-8.
func byteOrderMark() []byte { return []byte("\uFEFF") }

// readJSON reads a task that has the fields of a task file.
func readJSON(text []byte) (Task, error) {
	if text = bytes.TrimPrefix(text, byteOrderMark()); !utf8.Valid(text) {
		// a decoder would replace what it cannot read
		return Task{}, errors.New("must be text in UTF-8")
	}

	limits := jsoninput.Limits{Bytes: maxLine, Elements: maxElements, Depth: maxLevels}
	dec := json.NewDecoder(jsoninput.NewReader(bytes.NewReader(text), limits))
	dec.DisallowUnknownFields()

	var line struct {
		Task
		OnTimeout json.RawMessage `json:"on_timeout"`
	}
	if err := dec.Decode(&line); err != nil {
		return Task{}, rewordJSON(err)
	}

	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Task{}, errors.New("must be one JSON object, got more after it")
	}

	t := line.Task
	if line.OnTimeout != nil {
		if err := yaml.Unmarshal(line.OnTimeout, &t.OnTimeout); err != nil {
			return Task{}, fmt.Errorf("on_timeout: %w", err)
		}

		t.OnTimeout = *t.OnTimeout.Content[0]
	}

	return t, t.check(nil)
}

// rewordJSON names the field and removes Go types from the decoder's errors.
func rewordJSON(err error) error {
	if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return errors.New(taskFile().Unknown(strings.Trim(field, `"`), reflect.TypeFor[Task]()))
	}

	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		wrong.Field = strings.TrimPrefix(wrong.Field, "Task.")
	}

	return jsoninput.ExplainError("task", err)
}
