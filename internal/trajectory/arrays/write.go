package arrays

import (
	"errors"
	"io"

	"github.com/rolloutd/rolloutd/internal/trajectory/npz"
)

// Write writes the arrays under the names of the fields of rollout.Turn in JSON. Log probabilities are float64, as in the JSON lines: a trainer
// compares them with its own and may round them itself.
func (t *Turns) Write(to io.Writer) error {
	w := npz.NewWriter(to)
	return errors.Join(t.numbers(w), t.words(w), t.lists(w), w.Close())
}

func (t *Turns) numbers(w *npz.Writer) error {
	return errors.Join(
		npz.Add(w, "turn", t.turn),
		npz.Add(w, "train", t.train),
		npz.Add(w, "delivered", t.delivered),
		npz.Add(w, "broken", t.broken),
		npz.Add(w, "prefix_break_after", t.breakAfter),
		npz.Add(w, "prefix_break_at", t.breakAt),
		npz.Add(w, "upstream_status", t.status),
		npz.Add(w, "prompt_tokens", t.promptTokens),
		npz.Add(w, "completion_tokens", t.completionTokens),
		npz.Add(w, "timestamp", t.timestamp),
		npz.Add(w, "queued_s", t.queued),
		npz.Add(w, "first_byte_s", t.firstByte),
		npz.Add(w, "latency_s", t.latency),
	)
}

func (t *Turns) words(w *npz.Writer) error {
	return errors.Join(
		npz.AddStrings(w, "call_id", t.callID),
		npz.AddStrings(w, "api", t.api),
		npz.AddStrings(w, "kind", t.kind),
		npz.AddStrings(w, "lineage", t.lineage),
		npz.AddStrings(w, "branch", t.branch),
		npz.AddStrings(w, "finish_reason", t.finish),
		npz.AddStrings(w, "model_version", t.version),
		npz.AddStrings(w, "engine", t.engine),
	)
}

// lists writes each list with separate offsets: an endpoint may return ids without logprobs, or logprobs without ids.
func (t *Turns) lists(w *npz.Writer) error {
	return errors.Join(
		npz.Add(w, "prompt_token_ids", t.prompt.values),
		npz.Add(w, "prompt_offsets", t.prompt.offsets()),
		npz.Add(w, "completion_token_ids", t.completion.values),
		npz.Add(w, "completion_offsets", t.completion.offsets()),
		npz.Add(w, "per_token_logps", t.logps.values),
		npz.Add(w, "logps_offsets", t.logps.offsets()),
	)
}
