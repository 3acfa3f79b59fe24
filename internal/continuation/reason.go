package continuation

import (
	"slices"
	"strings"
)

// Reasons why a conversation does not continue by token ids: a word, which clients may count, and a sentence.
const (
	// there is no suffix
	NoCommonEnd  = "no_common_end: the chat template does not keep the text of earlier replies"
	StopNotFound = "stop_not_found: the chat template ends an earlier reply otherwise than the model did"

	// the reply
	Truncated = "truncated: the reply was cut off inside a thought, which the chat template would end otherwise"

	// the suffix is not the template's
	UnlikeTemplate = "audit: the chat template shows the conversation otherwise than its continuation does"

	// the endpoint
	NoIDs          = "no_ids: the endpoint's reply has no token ids"
	IDsIgnored     = "ids_ignored: the endpoint changed the ids of the prompt"
	TokenizeFailed = "tokenize_failed: "
)

// words lists the words of the reasons.
func words() []string {
	var all []string

	for _, reason := range []string{
		NoCommonEnd, StopNotFound, Truncated, UnlikeTemplate, NoIDs, IDsIgnored, TokenizeFailed,
	} {
		word, _, _ := strings.Cut(reason, ":")
		all = append(all, word)
	}

	return all
}

// ReasonOf returns the reason for an error of this package or of a Render.
func ReasonOf(err error) string {
	reason := err.Error()
	if word, _, ok := strings.Cut(reason, ":"); !ok || !slices.Contains(words(), word) {
		return TokenizeFailed + reason
	}

	return reason
}
