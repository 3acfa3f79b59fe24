package conversation

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxLine bounds a turn of a trace, in bytes.
const maxLine = 64 << 20

// EachTurn reads a trace, JSON lines of rollout.Turn, and gives its turns to take. One is in memory at a time; a turn above 64 MiB is a
// fault.Exhausted. It ends with the first error of take.
func EachTurn(trace io.Reader, take func(*rollout.Turn) error) error {
	lines := bufio.NewReaderSize(trace, 64<<10)
	for {
		line, err := readLine(lines)
		if len(line) > 0 {
			var t rollout.Turn
			if err := json.Unmarshal(line, &t); err != nil {
				return fault.Wrap(fault.Internal, err, "read the trace")
			}
			if err := take(&t); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case fault.Is(err, fault.Exhausted):
			return err
		case err != nil:
			return fault.Wrap(fault.Unavailable, err, "read the trace")
		}
	}
}

// readLine reads a line within maxLine.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, fault.New(fault.Exhausted, "a turn has more than %d MiB", maxLine>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), err
		}
	}
}
