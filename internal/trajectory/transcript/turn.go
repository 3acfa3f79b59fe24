package transcript

import (
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// Turn is one model call: its facts, the messages that are new in its request, and its reply.
type Turn struct {
	// from 1, in the order calls began
	Turn        int                  `json:"turn"`
	Kind        rollout.TurnKind     `json:"kind"`
	Lineage     string               `json:"lineage"`
	Branch      rollout.Branch       `json:"branch"`
	Delivered   bool                 `json:"delivered"`
	Train       bool                 `json:"train"`
	PrefixBreak *rollout.PrefixBreak `json:"prefix_break,omitempty"`

	// as in rollout.Turn
	Broken       string   `json:"broken,omitempty"`
	Flaws        []string `json:"flaws,omitempty"`
	FinishReason string   `json:"finish_reason,omitempty"`

	// as the request named it
	Model        string   `json:"model,omitempty"`
	ModelVersion string   `json:"model_version,omitempty"`
	Engine       string   `json:"engine,omitempty"`
	Constrained  string   `json:"constrained,omitempty"`
	ParamFixes   []string `json:"param_fixes,omitempty"`
	Repaired     string   `json:"repaired,omitempty"`
	Fallback     string   `json:"fallback,omitempty"`

	// unix seconds at the start of the call
	Timestamp      float64       `json:"timestamp"`
	QueuedS        float64       `json:"queued_s"`
	FirstByteS     float64       `json:"first_byte_s"`
	LatencyS       float64       `json:"latency_s"`
	UpstreamStatus int           `json:"upstream_status"`
	UpstreamTries  int           `json:"upstream_tries"`
	Usage          rollout.Usage `json:"usage"`

	// counts of the recorded ids; 0: the endpoint gave none
	PromptTokenIDs     int `json:"prompt_token_ids"`
	CompletionTokenIDs int `json:"completion_token_ids"`

	// MessagesBefore counts the messages at the start of the request that the latest turn of the lineage had too.
	MessagesBefore int `json:"messages_before"`

	// Parts are the new messages and the reply, in order. At most MaxParts are in a page: PartsOmitted counts the
	// others, which have the numbers after them.
	Parts        []Part `json:"parts"`
	PartsOmitted int    `json:"parts_omitted,omitempty"`
}

// Part is one text of a turn.
type Part struct {
	Kind PartKind `json:"kind"`

	// id of a tool call, also in its result
	CallID string `json:"call_id,omitempty"`

	// name of the tool
	Name string `json:"name,omitempty"`

	// Text is the text, or its beginning. The arguments of a tool call are a JSON text.
	Text string `json:"text"`

	// length of the whole text in bytes, if Text is its beginning
	Bytes int `json:"bytes,omitempty"`
}

// PartKind says what a part is. It is a closed set.
type PartKind string

const (
	System PartKind = "system"
	User   PartKind = "user"

	// ToolResult is the result of a tool call that an earlier reply has.
	ToolResult PartKind = "tool_result"

	// Assistant is a message of the assistant in the request that is not the reply of the turn before.
	Assistant PartKind = "assistant"
	Thinking  PartKind = "thinking"
	Text      PartKind = "text"
	ToolCall  PartKind = "tool_call"

	// Failure is the endpoint's error.
	Failure PartKind = "error"
)

// newTurn returns a turn without its parts.
func newTurn(t *rollout.Turn) Turn {
	return Turn{
		Turn: t.Turn, Kind: t.Kind, Lineage: t.Lineage, Branch: t.Branch, Delivered: t.Delivered, Train: t.Train,
		PrefixBreak:        t.PrefixBreak,
		Broken:             t.Broken,
		Flaws:              t.Flaws,
		FinishReason:       t.FinishReason,
		Model:              formats.ContentText(rawjson.MemberOf(t.Request, "model")),
		ModelVersion:       t.ModelVersion,
		Engine:             t.Engine,
		Constrained:        t.Constrained,
		ParamFixes:         t.ParamFixes,
		Repaired:           t.Repaired,
		Fallback:           t.Fallback,
		Timestamp:          t.Timestamp,
		QueuedS:            t.QueuedS,
		FirstByteS:         t.FirstByteS,
		LatencyS:           t.LatencyS,
		UpstreamStatus:     t.UpstreamStatus,
		UpstreamTries:      t.UpstreamTries,
		Usage:              t.Usage,
		PromptTokenIDs:     len(t.PromptTokenIDs),
		CompletionTokenIDs: len(t.CompletionTokenIDs),
	}
}
