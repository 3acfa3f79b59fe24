package client

import (
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// rawResult keeps the text beside what was decoded of it, so that fields this build does not know are not lost.
type rawResult struct {
	rollout.Result
	text []byte
}

func (r *rawResult) UnmarshalJSON(text []byte) error {
	r.text = slices.Clone(text)
	return json.Unmarshal(text, &r.Result)
}
