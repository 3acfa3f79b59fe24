package formats

import (
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// Turns are a trace's turns as columns.
type Turns struct {
	turn, status, promptTokens, completionTokens, breakAfter, breakAt []int64
	train, delivered, broken                                          []bool
	timestamp, queued, firstByte, latency                             []float64
	callID, api, kind, lineage, branch, finish, version, engine       []string

	prompt, completion flat[int32]
	logps              flat[float64]
}

// flat is one list of each turn, one after another.
type flat[T any] struct {
	values []T
	ends   []int64
}

func (f *flat[T]) add(list []T) {
	f.values = append(f.values, list...)
	f.ends = append(f.ends, int64(len(f.values)))
}

// offsets returns the positions of the lists: list i is values[offsets[i]:offsets[i+1]].
func (f *flat[T]) offsets() []int64 { return append([]int64{0}, f.ends...) }

// MaxArrayBytes bounds the lists of token ids and log probabilities of a trace, in bytes. While they grow
// they take up to twice as much.
const MaxArrayBytes = 96 << 20

// Bytes returns the memory of the arrays.
func (t *Turns) Bytes() int64 {
	// the rough size of a turn
	const numbers, words = 11 * 8, 8 * 32
	return t.listBytes() + int64(len(t.turn))*(numbers+words)
}

func (t *Turns) listBytes() int64 {
	return int64(4*len(t.prompt.values) + 4*len(t.completion.values) + 8*len(t.logps.values))
}

// ReadArrays reads JSON lines of rollout.Turn to the end. One line is in memory at a time, besides the
// arrays. A trace whose lists take more than most bytes is a fault.Exhausted.
func ReadArrays(lines io.Reader, most int64) (*Turns, error) {
	t := &Turns{}

	err := turns.Each(lines, turns.Unbounded, func(turn *rollout.Turn) error {
		t.addTurn(turn)

		if t.listBytes() > most {
			return fault.New(fault.Exhausted,
				"the arrays of this trace take more than %d bytes: read the trace as jsonl",
				most)
		}

		return nil
	})
	if err != nil {
		return nil, err
	}

	return t, nil
}

func (t *Turns) addTurn(r *rollout.Turn) {
	t.addNumbers(r)
	t.callID, t.api = append(t.callID, r.CallID), append(t.api, r.API)
	t.kind, t.lineage, t.branch = append(t.kind, string(r.Kind)), append(t.lineage, r.Lineage), append(
		t.branch,
		string(r.Branch),
	)
	t.finish, t.version = append(t.finish, r.FinishReason), append(t.version, r.ModelVersion)
	t.engine = append(t.engine, r.Engine)
	t.prompt.add(r.PromptTokenIDs)
	t.completion.add(r.CompletionTokenIDs)
	t.logps.add(r.PerTokenLogps)
}

func (t *Turns) addNumbers(r *rollout.Turn) {
	// an index may be 0, a turn may not
	broke := rollout.PrefixBreak{At: -1}
	if r.PrefixBreak != nil {
		broke = *r.PrefixBreak
	}

	t.turn, t.status = append(t.turn, int64(r.Turn)), append(t.status, int64(r.UpstreamStatus))
	t.promptTokens, t.completionTokens = append(t.promptTokens, r.Usage.PromptTokens), append(
		t.completionTokens,
		r.Usage.CompletionTokens,
	)
	t.breakAfter, t.breakAt = append(t.breakAfter, int64(broke.AfterTurn)), append(t.breakAt, int64(broke.At))
	t.train, t.delivered, t.broken = append(t.train, r.Train), append(t.delivered, r.Delivered), append(
		t.broken,
		r.Broken != "",
	)
	t.timestamp, t.queued = append(t.timestamp, r.Timestamp), append(t.queued, r.QueuedS)
	t.firstByte, t.latency = append(t.firstByte, r.FirstByteS), append(t.latency, r.LatencyS)
}
