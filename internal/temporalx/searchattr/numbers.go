package searchattr

import "encoding/json"

// Numbers are further numbers that lists show. One attribute has them all, because Temporal's SQL stores have few
// columns for attributes. A nil number is not known.
type Numbers struct {
	// Of a rollout that has ended.
	Attempts *int `json:"attempts,omitempty"`

	// turns of the last attempt
	Turns *int `json:"turns,omitempty"`

	// the turns of Usage
	Calls        *int   `json:"calls,omitempty"`
	Prompt       *int64 `json:"prompt_tokens,omitempty"`
	CachedPrompt int64  `json:"cached_prompt_tokens,omitempty"`
	Completion   *int64 `json:"completion_tokens,omitempty"`

	// Of a group: its size, and from its end on how many of its rollouts were replaced.
	Size     *int `json:"size,omitempty"`
	Replaced *int `json:"replaced,omitempty"`
}

// Text returns the value of the attribute.
func (n Numbers) Text() string {
	text, err := json.Marshal(n)
	if err != nil {
		// numbers always encode
		panic(err)
	}

	return string(text)
}

// NumbersOf reads the value of the attribute; a value that cannot be read has none.
func NumbersOf(text string) (n Numbers) {
	if json.Unmarshal([]byte(text), &n) != nil {
		return Numbers{}
	}

	return n
}
