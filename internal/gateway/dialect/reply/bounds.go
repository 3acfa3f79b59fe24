package reply

import (
	"bytes"
	"fmt"
)

// Bounds of what is kept of a reply in memory, beside its bytes. A reply beyond them is broken: no model gives as much, and an endpoint
// may be hostile.
const (
	maxTokens  = 4 << 20  // ids, log probabilities, named and meta tokens, each
	maxText    = 256      // bytes of a version or a finish reason
	maxErrorIn = 64 << 10 // bytes of an error object
)

// overfull says whether a reply has more of anything than is kept.
func (r *Reply) overfull() bool {
	return max(len(r.PromptTokenIDs), len(r.TokenIDs), len(r.Logprobs), len(r.named), len(r.meta)) > maxTokens
}

// errorOf keeps an error object, or says how long it was.
func errorOf(raw []byte) []byte {
	if len(raw) > maxErrorIn {
		return fmt.Appendf(nil, `{"message":"an error of %d bytes, which is more than is kept"}`, len(raw))
	}
	return bytes.Clone(raw)
}

// shortText keeps a name an endpoint gives.
func shortText(raw []byte) string {
	if len(raw) > maxText {
		raw = raw[:maxText]
	}
	return string(raw)
}
