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
	last, expertBytes, imageBytes := 0, int64(0), int64(0)

	// the turns of the earlier trace stay as they are
	err := Each(io.TeeReader(earlier, w), Unbounded, func(t *rollout.Turn) error {
		last = max(last, t.Turn)

		if x := t.RoutedExperts; x != nil {
			expertBytes = max(expertBytes, x.At+x.Bytes())
		}

		if m := t.SamplingMask; m != nil {
			expertBytes = max(expertBytes, m.At+m.Bytes())
		}

		for _, image := range t.ImageRefs {
			imageBytes = max(imageBytes, image.At+image.Bytes)
		}

		return nil
	})
	if err != nil {
		return err
	}

	to := json.NewEncoder(w)
	to.SetEscapeHTML(false)

	return Each(later, Unbounded, func(t *rollout.Turn) error {
		t.Turn += last
		t.Lineage = prefix + t.Lineage

		if t.PrefixBreak != nil {
			t.PrefixBreak.AfterTurn += last
		}

		if x := t.RoutedExperts; x != nil && x.Rows > 0 {
			x.At += expertBytes

			if x.Base > 0 {
				x.Base += last
			}
		}

		if m := t.SamplingMask; m != nil && m.Rows > 0 {
			m.At += expertBytes
		}

		for i := range t.ImageRefs {
			t.ImageRefs[i].At += imageBytes
		}

		err := to.Encode(t)
		// the reader has been closed
		if errors.Is(err, io.ErrClosedPipe) {
			return err
		}

		return fault.Wrap(fault.Internal, err, "encode a turn")
	})
}
