package trace

import (
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Record is the record of one model call.
type Record struct {
	Head

	// as sent upstream
	Request []byte

	// the endpoint's bytes: a stream of events or a JSON object; of a broken call the part that arrived
	Reply []byte

	// PromptAt is the position of PromptTokenIDs in Reply, if they are plain numbers; on disk they are then
	// removed from it.
	PromptAt rawjson.Span

	PromptTokenIDs []int32

	// ids of the completion
	TokenIDs []int32

	// one for each of TokenIDs
	Logprobs []float64

	// ExpertRows are the rows of Head.Experts and then those of Head.SamplingMask, to be appended; a record that is read has none. See Log.ExpertRows.
	ExpertRows []byte
}

// Head is the part of a record besides its sections.
type Head struct {
	// from 1, in the order calls began
	Turn   int    `json:"turn"`
	CallID string `json:"call_id"`
	API    string `json:"api,omitempty"`

	// as in rollout.Turn, written unchanged
	Rewritten json.RawMessage  `json:"rewritten,omitempty"`
	Kind      rollout.TurnKind `json:"kind"`
	Lineage   string           `json:"lineage,omitempty"`

	// why the reply is incomplete; "": it is complete
	Broken string `json:"broken,omitempty"`

	// what is wrong with the capture of a complete reply
	Flaws        []string      `json:"flaws,omitempty"`
	FinishReason string        `json:"finish_reason,omitempty"`
	Usage        rollout.Usage `json:"usage"`
	Began        time.Time     `json:"began"`

	// waiting for admission, all tries together
	Queued time.Duration `json:"queued,omitempty"`

	// until the end of the reply, retries included
	Latency time.Duration `json:"latency"`

	// until the first byte of the reply; 0: none
	FirstByte time.Duration `json:"first_byte"`

	// HTTP status of the last try; 0: no answer
	Status        int             `json:"status"`
	Tries         int             `json:"tries"`
	UpstreamError json.RawMessage `json:"upstream_error,omitempty"`
	ModelVersion  string          `json:"model_version,omitempty"`

	// as WeightVersions in rollout.Turn
	Versions []rollout.VersionSpan `json:"versions,omitempty"`

	// as in rollout.Turn
	Engine string `json:"engine,omitempty"`

	// as in rollout.Turn
	Constrained string `json:"constrained,omitempty"`

	// an evaluation: the turn is not trained on
	Eval bool `json:"eval,omitempty"`

	// as ParamFixes in rollout.Turn
	Fixes []string `json:"fixes,omitempty"`

	// as in rollout.Turn
	Repaired string `json:"repaired,omitempty"`

	// as in rollout.Turn
	Fallback string `json:"fallback,omitempty"`

	// as in rollout.Turn
	Masked string `json:"masked,omitempty"`

	// Experts describes the call's routed experts; nil: none were asked for
	Experts *rollout.RoutedExperts `json:"experts,omitempty"`

	// SamplingMask describes the call's sampling mask; nil: none was asked for
	SamplingMask *rollout.SamplingMask `json:"sampling_mask,omitempty"`

	// part of latency: waiting without a useful answer
	Owed time.Duration `json:"owed,omitempty"`
}

// Complete reports whether the call has a complete reply.
func (h *Head) Complete() bool { return h.Broken == "" }

// Check refuses what would misalign or falsify a training sequence: ids and logprobs of unequal length, and
// logprobs that are impossible, are taken out of the record, and the record says so. Both stay readable in
// the raw reply.
func (r *Record) Check() {
	r.checkLengths()
	r.checkLogprobs()
}
