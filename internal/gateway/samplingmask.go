package gateway

import (
	"slices"

	"github.com/rolloutd/rolloutd/internal/gateway/samplingmask"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// keepMask adds the sampling mask of a reply to its record, with the log probabilities among the tokens of its rows, or why
// it has none. Its rows follow those of the routed experts.
func (r *route) keepMask(res *upstream.Result, rec *trace.Record) {
	if !r.masks || res.Problem != nil || len(rec.TokenIDs) == 0 {
		return
	}

	mask, err := samplingmask.Decode(res.Replay.Mask, res.Replay.MaskLogprobs, rec.TokenIDs)
	if err != nil {
		rec.SamplingMask = &rollout.SamplingMask{Missing: err.Error()}
		rec.Flaws = slices.Concat(rec.Flaws, []string{"no sampling mask: " + err.Error()})

		return
	}

	rec.SamplingMask = &rollout.SamplingMask{Rows: mask.Rows, IDs: mask.IDs}
	rec.ExpertRows = slices.Concat(rec.ExpertRows, mask.Data)
	rec.Logprobs = mask.Logprobs
}
