package client

import (
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// rawResult keeps the server's JSON beside the decoded result, so that fields unknown to this build are not lost.
type rawResult struct {
	rollout.Result
	text []byte
}

func (r *rawResult) UnmarshalJSON(text []byte) error {
	r.text = slices.Clone(text)
	return json.Unmarshal(text, &r.Result)
}
