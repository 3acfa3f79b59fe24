package turns

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Join streams an earlier trace and then a later one, whose turns continue the numbers of the earlier one. The later
// one's conversations are others: prefix comes before the names of their lineages. Its routed experts, masks and images are behind
// the earlier ones. The caller closes it.
func Join(earlier, later io.Reader, prefix string) io.ReadCloser {
	r, w := io.Pipe()

	go func() { w.CloseWithError(join(w, earlier, later, prefix)) }()

	return r
}

func join(w io.Writer, earlier, later io.Reader, prefix string) error {
	var end traceEnd

	// the turns of the earlier trace stay as they are
	err := Each(io.TeeReader(earlier, w), Unbounded, func(t *rollout.Turn) error {
		end.include(t)
		return nil
	})
	if err != nil {
		return err
	}

	to := json.NewEncoder(w)
	to.SetEscapeHTML(false)

	return Each(later, Unbounded, func(t *rollout.Turn) error {
		end.moveBehind(t)
		t.Lineage = prefix + t.Lineage

		err := to.Encode(t)
		// the reader has been closed
		if errors.Is(err, io.ErrClosedPipe) {
			return err
		}

		return fault.Wrap(fault.Internal, err, "encode a turn")
	})
}

// traceEnd is where a trace ends: its last turn, and the bytes of its routed experts with its masks, and of its images.
type traceEnd struct {
	turn                    int
	expertBytes, imageBytes int64
}

// include takes a turn of the trace into account.
func (e *traceEnd) include(t *rollout.Turn) {
	e.turn = max(e.turn, t.Turn)

	if x := t.RoutedExperts; x != nil {
		e.expertBytes = max(e.expertBytes, x.At+x.Bytes())
	}

	if m := t.SamplingMask; m != nil {
		e.expertBytes = max(e.expertBytes, m.At+m.Bytes())
	}

	for _, image := range t.ImageRefs {
		e.imageBytes = max(e.imageBytes, image.At+image.Bytes)
	}
}

// moveBehind moves a turn of another trace behind the end.
func (e *traceEnd) moveBehind(t *rollout.Turn) {
	t.Turn += e.turn

	if t.PrefixBreak != nil {
		t.PrefixBreak.AfterTurn += e.turn
	}

	if x := t.RoutedExperts; x != nil && x.Rows > 0 {
		x.At += e.expertBytes

		if x.Base > 0 {
			x.Base += e.turn
		}
	}

	if m := t.SamplingMask; m != nil && m.Rows > 0 {
		m.At += e.expertBytes
	}

	for i := range t.ImageRefs {
		t.ImageRefs[i].At += e.imageBytes
	}
}
