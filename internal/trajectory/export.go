package trajectory

import (
	"bytes"
	"cmp"
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Mark says what an audit found wrong with a turn. It is stored with routes: fields are added, never renamed or
// removed.
type Mark struct {
	Flaw string `json:"flaw"`
	// Drop: the turn is not trained on.
	Drop bool `json:"drop,omitempty"`
}

// ExportOptions are options of Export. The zero value has none.
type ExportOptions struct {
	// Unfit is a reason against training: no turn is trained on, and it is a flaw of the turns that otherwise would be.
	Unfit string

	// Marks are those of audited turns, by number.
	Marks map[int][]Mark

	// ImagesApart puts the digests of images in the place of their bytes, which ExportImages writes.
	ImagesApart bool
}

// Export writes all turns as JSON lines of rollout.Turn, in the order in which their calls began. One
// record is in memory at a time, besides the ids of each lineage's latest. An
// evaluation is a flaw of the turns of subagents and of summaries in the same way as Unfit.
func Export(l *trace.Log, w io.Writer, o ExportOptions) error {
	lineages, summarised, expertBytes, pictures := chain{}, summarized{}, int64(0), imageBook{}

	for _, e := range l.Entries() {
		r, err := l.Read(e)
		if err != nil {
			return err
		}

		turn := TurnOf(r, e.Delivered)
		if x := turn.RoutedExperts; x != nil && x.Rows > 0 {
			x.At = expertBytes
			expertBytes += x.Bytes()
		}

		if m := turn.SamplingMask; m != nil && m.Rows > 0 {
			m.At = expertBytes
			expertBytes += m.Bytes()
		}

		pictures.putImages(&turn, o.ImagesApart)

		why := o.Unfit
		if r.Eval {
			why = cmp.Or(why, "sampled for an evaluation")
		}

		if why != "" && (turn.Train || sequence.TrainsApart(&turn)) {
			turn.Train, turn.Flaws = false, append(turn.Flaws, why)
			clear(turn.LossMask)
		}

		for _, m := range o.Marks[turn.Turn] {
			m.markTurn(&turn)
		}

		turn.PrefixBreak, turn.Branch = lineages.follow(&turn), summarised.branch(&turn)

		line, err := marshal(turn)
		if err != nil {
			return err
		}
		// A sampled token may be a part of a character, and readers of JSON lines require valid UTF-8.
		if _, err := w.Write(append(bytes.ToValidUTF8(line, []byte("\uFFFD")), '\n')); err != nil {
			return fmt.Errorf("export trace: %w", err)
		}
	}

	return nil
}

// ExportExperts writes the rows of routed experts and of sampling masks of all turns, one after another as Export
// describes them.
func ExportExperts(l *trace.Log, w io.Writer) error {
	for _, e := range l.Entries() {
		rows, err := l.ExpertRows(e)
		if err != nil {
			return err
		}

		if _, err := w.Write(rows); err != nil {
			return fmt.Errorf("export routed experts: %w", err)
		}
	}

	return nil
}

// markTurn adds what an audit found wrong with the turn.
func (m Mark) markTurn(t *rollout.Turn) {
	t.Flaws = append(t.Flaws, m.Flaw)
	if m.Drop {
		t.Train = false
		clear(t.LossMask)
	}
}
