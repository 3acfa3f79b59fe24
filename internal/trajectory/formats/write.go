package formats

import (
	"errors"
	"io"
)

// Write writes the arrays under the names of the fields of rollout.Turn in JSON. Log probabilities are
// float64, as in the JSON lines: a trainer compares them with its own and may round them itself.
func (t *Turns) Write(to io.Writer) error {
	w := NewNPZWriter(to)
	return errors.Join(t.numbers(w), t.words(w), t.lists(w), w.Close())
}

func (t *Turns) numbers(w *NPZWriter) error {
	return errors.Join(
		AddArray(w, "turn", t.turn),
		AddArray(w, "train", t.train),
		AddArray(w, "delivered", t.delivered),
		AddArray(w, "broken", t.broken),
		AddArray(w, "prefix_break_after", t.breakAfter),
		AddArray(w, "prefix_break_at", t.breakAt),
		AddArray(w, "upstream_status", t.status),
		AddArray(w, "prompt_tokens", t.promptTokens),
		AddArray(w, "completion_tokens", t.completionTokens),
		AddArray(w, "timestamp", t.timestamp),
		AddArray(w, "queued_s", t.queued),
		AddArray(w, "first_byte_s", t.firstByte),
		AddArray(w, "latency_s", t.latency),
	)
}

func (t *Turns) words(w *NPZWriter) error {
	return errors.Join(
		AddStrings(w, "call_id", t.callID),
		AddStrings(w, "api", t.api),
		AddStrings(w, "kind", t.kind),
		AddStrings(w, "lineage", t.lineage),
		AddStrings(w, "branch", t.branch),
		AddStrings(w, "finish_reason", t.finish),
		AddStrings(w, "model_version", t.version),
		AddStrings(w, "engine", t.engine),
	)
}

// lists writes each list with separate offsets: an endpoint may return ids without logprobs, or logprobs without ids.
func (t *Turns) lists(w *NPZWriter) error {
	return errors.Join(
		AddArray(w, "prompt_token_ids", t.prompt.values),
		AddArray(w, "prompt_offsets", t.prompt.offsets()),
		AddArray(w, "completion_token_ids", t.completion.values),
		AddArray(w, "completion_offsets", t.completion.offsets()),
		AddArray(w, "per_token_logps", t.logps.values),
		AddArray(w, "logps_offsets", t.logps.offsets()),
	)
}
