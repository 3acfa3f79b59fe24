// Package turns reads traces: JSON lines of rollout.Turn.
package turns

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Bounds of a line of a trace, in bytes.
const (
	// Bounded is for readers that keep more of a line than its lists.
	Bounded = 64 << 20
	// Unbounded is for readers that must accept any line.
	Unbounded = math.MaxInt
)

// Each calls take with each turn of a trace, and ends with the first error of take. One line is in memory
// at a time; a line of more than maxLine bytes is a fault.Exhausted. A line that is not a turn is a
// fault.Internal, and an incomplete trace a fault.Unavailable.
func Each(trace io.Reader, maxLine int, take func(*rollout.Turn) error) error {
	lines := bufio.NewReaderSize(trace, 64<<10)
	for n := 0; ; {
		line, err := readLine(lines, maxLine)

		ended := errors.Is(err, io.EOF)
		switch {
		case fault.Is(err, fault.Exhausted):
			return err
		case err != nil && !ended:
			return fault.Wrap(fault.Unavailable, err, "read the trace after %d turns", n)
		case len(line) > 0:
			t, err := decode(line)
			if err != nil {
				return fault.Wrap(fault.Internal, err, "read the trace after %d turns", n)
			}

			if err := take(&t); err != nil {
				return err
			}

			n++
		}

		if ended {
			return nil
		}
	}
}

// readLine reads a line and trims white space.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte

	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > most {
			return nil, fault.New(fault.Exhausted, "a turn has more than %d MiB", most>>20)
		}

		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), err
		}
	}
}

// decode reads a line. The turn's request and response alias it. They, the prompt's ids and the mask are
// nearly all of a line, and encoding/json looks at each byte three times; so it gets only the other
// members.
func decode(line []byte) (t rollout.Turn, err error) {
	o, err := rawjson.ParseObject(line)
	if err != nil {
		return t, err
	}

	request, response := cut(o, "request"), cut(o, "response")

	ids, mask := cut(o, "prompt_token_ids"), cut(o, "loss_mask")
	if err := json.Unmarshal(o.Bytes(), &t); err != nil {
		return t, err
	}

	t.Request, t.Response = request, response
	if t.PromptTokenIDs, err = readIDs(ids); err != nil {
		return t, err
	}

	if mask != nil {
		err = t.LossMask.UnmarshalJSON(mask)
	}

	return t, err
}

// cut removes a member from an object and returns its value; nil: there is none.
func cut(o *rawjson.Object, key string) []byte {
	value, _ := o.Get(key)
	o.Remove(key)

	return value
}

func readIDs(list []byte) ([]int32, error) {
	if list == nil || string(list) == "null" {
		return nil, nil
	}

	c := rawjson.Cursor{Src: list}

	ids, _ := c.IDs([]int32{})
	if !c.AtEnd() {
		return nil, fault.New(fault.Invalid, "prompt_token_ids is not a list of token ids")
	}

	return ids, nil
}
