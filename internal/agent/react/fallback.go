package react

import "strings"

// Reasons why a conversation does not continue by token ids: a word, which clients may count, and a sentence.
const (
	// there is no suffix
	noCommonEnd  = "no_common_end: the chat template does not keep the text of earlier replies"
	stopNotFound = "stop_not_found: the chat template ends an earlier reply otherwise than the model did"

	// the suffix is not the template's
	unlikeTemplate = "audit: the chat template shows the conversation otherwise than its continuation does"

	// the endpoint
	noIDs          = "no_ids: the endpoint's reply has no token ids"
	idsIgnored     = "ids_ignored: the endpoint changed the ids of the prompt"
	tokenizeFailed = "tokenize_failed: "
)

// fallbacks lists the words of the reasons.
func fallbacks() []string {
	var words []string

	for _, reason := range []string{noCommonEnd, stopNotFound, unlikeTemplate, noIDs, idsIgnored, tokenizeFailed} {
		word, _, _ := strings.Cut(reason, ":")
		words = append(words, word)
	}

	return words
}
