package reply

import (
	"bytes"
	"fmt"
)

// Bounds of the decoded parts of a reply in memory. A reply beyond them counts as broken: no model returns
// as much, and an endpoint may be hostile.
const (
	// ids, log probabilities, named and meta tokens, each
	maxTokens = 4 << 20

	// bytes of a version or a finish reason
	maxText = 256

	// bytes of an error object
	maxErrorIn = 64 << 10
)

// overfull reports whether a reply exceeds the bounds.
func (r *Reply) overfull() bool {
	return max(len(r.PromptTokenIDs), len(r.TokenIDs), len(r.Logprobs), len(r.named), len(r.meta)) > maxTokens
}

// errorOf copies an error object, or replaces one that is too long.
func errorOf(raw []byte) []byte {
	if len(raw) > maxErrorIn {
		return fmt.Appendf(nil, `{"message":"an error of %d bytes, which is more than is kept"}`, len(raw))
	}

	return bytes.Clone(raw)
}

// shortText copies a name from an endpoint, shortened.
func shortText(raw []byte) string {
	if len(raw) > maxText {
		raw = raw[:maxText]
	}

	return string(raw)
}
