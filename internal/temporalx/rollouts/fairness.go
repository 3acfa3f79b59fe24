package rollouts

import (
	"crypto/sha256"
	"encoding/hex"

	"go.temporal.io/sdk/temporal"
)

// maxKey is Temporal's maximum length of a fairness key, in bytes.
const maxKey = 64

// priorityOf returns the priority of a workflow, which its activities and children inherit. Temporal serves
// the backlog of a queue by turns of keys: each producer has a key, and so do all rollouts and episodes
// that an owner starts directly (producer ""). Owner is the name of a token; "" without tokens. The server
// needs matching.enableFairness; without it the oldest task is first.
func priorityOf(owner, producer string) temporal.Priority {
	key := owner + "/" + producer
	if len(key) > maxKey {
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:])
	}

	return temporal.Priority{FairnessKey: key}
}
