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
	Request []byte // as sent upstream
	Reply   []byte // the endpoint's bytes: a stream of events or a JSON object; of a broken call the part that arrived

	// PromptAt is the position of PromptTokenIDs in Reply, if they are plain numbers; on disk they are then removed from it.
	PromptAt rawjson.Span

	PromptTokenIDs []int32
	TokenIDs       []int32   // of the completion
	Logprobs       []float64 // one for each of TokenIDs
}

// Head is the part of a record besides its sections.
type Head struct {
	Turn          int              `json:"turn"` // from 1, in the order calls began
	CallID        string           `json:"call_id"`
	API           string           `json:"api,omitempty"`
	Rewritten     json.RawMessage  `json:"rewritten,omitempty"` // as in rollout.Turn, written unchanged
	Kind          rollout.TurnKind `json:"kind"`
	Lineage       string           `json:"lineage,omitempty"`
	Broken        string           `json:"broken,omitempty"` // why the reply is incomplete; "": it is complete
	Flaws         []string         `json:"flaws,omitempty"`  // what is wrong with the capture of a complete reply
	FinishReason  string           `json:"finish_reason,omitempty"`
	Usage         rollout.Usage    `json:"usage"`
	Began         time.Time        `json:"began"`
	Queued        time.Duration    `json:"queued,omitempty"` // waiting for admission, all tries together
	Latency       time.Duration    `json:"latency"`          // until the end of the reply, retries included
	FirstByte     time.Duration    `json:"first_byte"`       // until the first byte of the reply; 0: none
	Status        int              `json:"status"`           // HTTP status of the last try; 0: no answer
	Tries         int              `json:"tries"`
	UpstreamError json.RawMessage  `json:"upstream_error,omitempty"`
	ModelVersion  string           `json:"model_version,omitempty"`
	Engine        string           `json:"engine,omitempty"`      // as in rollout.Turn
	Constrained   string           `json:"constrained,omitempty"` // as in rollout.Turn
	Eval          bool             `json:"eval,omitempty"`        // an evaluation: the turn is not trained on
	Fixes         []string         `json:"fixes,omitempty"`       // as ParamFixes in rollout.Turn
	Repaired      string           `json:"repaired,omitempty"`    // as in rollout.Turn
	Owed          time.Duration    `json:"owed,omitempty"`        // part of latency: waiting without a useful answer
}

// Whole reports whether the call has a complete reply.
func (h *Head) Whole() bool { return h.Broken == "" }

// Check refuses what would misalign or falsify a training sequence: ids and logprobs of unequal length, and logprobs that are impossible, are
// taken out of the record, and the record says so. Both stay readable in the raw reply.
func (r *Record) Check() {
	r.checkLengths()
	r.checkLogprobs()
}
