package sequence

import (
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// MaxTokens bounds the tokens of all sequences of a trajectory: about 100 MiB of memory. The bound is
// needed because an agent that rewrites its conversation at every turn makes one sequence per turn.
const MaxTokens = 8 << 20

// Read makes a trajectory from a trace, JSON lines of rollout.Turn. One line is in memory at a time,
// besides the sequences.
func Read(lines io.Reader, choice Choice) (Trajectory, error) {
	b, err := NewBuilder(choice)
	if err != nil {
		return Trajectory{}, err
	}

	err = turns.Each(lines, turns.Unbounded, b.AddBounded)
	if err != nil {
		return Trajectory{}, err
	}

	return b.Trajectory(), nil
}

// AddBounded is Add for a trajectory of at most MaxTokens tokens; a longer one is a fault.Exhausted.
func (b *Builder) AddBounded(t *rollout.Turn) error {
	if err := b.Add(t); err != nil {
		return err
	}

	if b.tokens > MaxTokens {
		return fault.New(fault.Exhausted, "the sequences of this trace have more than %d tokens: read the trace itself",
			MaxTokens)
	}

	return nil
}
