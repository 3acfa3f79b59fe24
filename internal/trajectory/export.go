package trajectory

import (
	"bytes"
	"cmp"
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Export writes all turns as JSON lines of rollout.Turn, in the order the calls began. One record is in memory at a time,
// and the ids of each lineage's latest. Where there is a reason why the turns are unfit for training, none is trained on, and it is a flaw
// of those that otherwise were; so is an evaluation of a subagent's turns.
func Export(l *trace.Log, w io.Writer, unfit string) error {
	lineages, summarised := chain{}, summarized{}
	for _, e := range l.Entries() {
		r, err := l.Read(e)
		if err != nil {
			return err
		}
		turn := TurnOf(r, e.Delivered)
		why := unfit
		if r.Eval {
			why = cmp.Or(why, "sampled for an evaluation")
		}
		if why != "" && (turn.Train || sequence.TrainsApart(&turn)) {
			turn.Train, turn.Flaws = false, append(turn.Flaws, why)
			clear(turn.LossMask)
		}
		turn.PrefixBreak, turn.Branch = lineages.follow(&turn), summarised.branch(&turn)
		line, err := marshal(turn)
		if err != nil {
			return err
		}
		// A sampled token may be half a character; readers of JSON lines insist on valid UTF-8.
		if _, err := w.Write(append(bytes.ToValidUTF8(line, []byte("\uFFFD")), '\n')); err != nil {
			return fmt.Errorf("export trace: %w", err)
		}
	}
	return nil
}
