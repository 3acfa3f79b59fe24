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
	Truncated = "truncated: the reply was cut off, inside a thought or before a call, and its end is not known"
	StopText  = "stop_text: the request has stop texts, and a text is no token"

	// the conversation
	NoMatch  = "no_match: the request does not repeat an earlier conversation and its reply"
	Role     = "role: after the reply come messages other than of the user or a tool"
	UserTurn = "user_turn: a user message follows a final answer, and user_turn is render"
	Media    = "media: the conversation has more than text"

	// the suffix is not the template's
	UnlikeTemplate = "audit: the chat template shows the conversation otherwise than its continuation does"

	// the endpoint
	NoIDs          = "no_ids: the endpoint's reply has no token ids"
	IDsIgnored     = "ids_ignored: the endpoint changed the ids of the prompt"
	IDsRefused     = "ids_refused: "
	TokenizeFailed = "tokenize_failed: "
)

// WordOf returns the word of a reason.
func WordOf(reason string) string {
	word, _, _ := strings.Cut(reason, ":")
	return word
}

// words lists the words of the reasons.
func words() []string {
	var all []string

	for _, reason := range []string{
		NoCommonEnd, StopNotFound, Truncated, StopText, NoMatch, Role, UserTurn, Media, UnlikeTemplate, NoIDs, IDsIgnored,
		IDsRefused, TokenizeFailed,
	} {
		all = append(all, WordOf(reason))
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
