package sequence

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// MaxTokens bounds the tokens of all sequences of a trajectory: some 100 MiB of memory. An agent that rewrites its conversation at every
// turn makes a sequence of each.
const MaxTokens = 8 << 20

// Read makes a trajectory of a trace, JSON lines of rollout.Turn. One line is in memory at a time beside the sequences.
func Read(lines io.Reader, subagents Subagents) (Trajectory, error) {
	b, err := NewBuilder(subagents)
	if err != nil {
		return Trajectory{}, err
	}
	dec := json.NewDecoder(bufio.NewReaderSize(lines, 1<<20))
	for {
		var t rollout.Turn
		err := dec.Decode(&t)
		if errors.Is(err, io.EOF) {
			return b.Trajectory(), nil
		}
		if err != nil {
			return Trajectory{}, fault.Wrap(fault.Internal, err, "trace after %d turns", b.done.Turns)
		}
		if err := b.Add(&t); err != nil {
			return Trajectory{}, err
		}
		if b.tokens > MaxTokens {
			return Trajectory{}, fault.New(fault.Exhausted, "the sequences of this trace have more than %d tokens: read the trace itself", MaxTokens)
		}
	}
}
