package trace

import (
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Record is one model call as it is kept.
type Record struct {
	Head
	Request []byte // as sent upstream
	Reply   []byte // the upstream's bytes: a stream of events or a JSON object; what had come when the call is broken

	// PromptAt is where PromptTokenIDs stand in Reply, when they are spelt plainly; on disk they are then left out of it.
	PromptAt rawjson.Span

	PromptTokenIDs []int32
	TokenIDs       []int32   // of the completion
	Logprobs       []float64 // one for each of TokenIDs
}

// Head is what a record has besides its sections.
type Head struct {
	Turn          int              `json:"turn"` // from 1, in the order calls began
	CallID        string           `json:"call_id"`
	API           string           `json:"api,omitempty"`
	Rewritten     json.RawMessage  `json:"rewritten,omitempty"` // as in rollout.Turn; it is written as it is
	Kind          rollout.TurnKind `json:"kind"`
	Lineage       string           `json:"lineage,omitempty"`
	Broken        string           `json:"broken,omitempty"` // why there is no whole reply; empty: there is
	Flaws         []string         `json:"flaws,omitempty"`  // what is wrong with the capture of a whole reply
	FinishReason  string           `json:"finish_reason,omitempty"`
	Usage         rollout.Usage    `json:"usage"`
	Began         time.Time        `json:"began"`
	Queued        time.Duration    `json:"queued,omitempty"` // until the endpoint might be asked, all tries together
	Latency       time.Duration    `json:"latency"`          // to the end of the reply, retries included
	FirstByte     time.Duration    `json:"first_byte"`       // to the first byte of the reply; 0: there was none
	Status        int              `json:"status"`           // HTTP status of the last try; 0: no answer
	Tries         int              `json:"tries"`
	UpstreamError json.RawMessage  `json:"upstream_error,omitempty"`
	ModelVersion  string           `json:"model_version,omitempty"`
	Engine        string           `json:"engine,omitempty"`      // as in rollout.Turn
	Constrained   string           `json:"constrained,omitempty"` // as in rollout.Turn
	Eval          bool             `json:"eval,omitempty"`        // the rollout's purpose is evaluation: the turn is not trained on
	Fixes         []string         `json:"fixes,omitempty"`       // as ParamFixes in rollout.Turn
	Owed          time.Duration    `json:"owed,omitempty"`        // of latency: while the endpoint gave nothing of use
}

// Whole says whether the call has a whole reply.
func (h *Head) Whole() bool { return h.Broken == "" }

// Check refuses what would misalign a training sequence: ids and logprobs of unequal length are taken out of the record
// and the record says so. Both stay readable in the raw reply.
func (r *Record) Check() {
	r.checkLengths()
	r.checkFinite()
}
