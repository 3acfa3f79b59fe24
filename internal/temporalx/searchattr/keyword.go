package searchattr

import "strings"

// keywordBytes bounds a keyword: the SQL stores of Temporal keep 255 characters of one.
const keywordBytes = 200

// Keyword returns text as a keyword attribute stores it: cut between characters and without NULs.
// PostgreSQL refuses NULs, and Temporal would retry without end and never list the rollout's state.
func Keyword(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	if len(text) <= keywordBytes {
		return text
	}

	return strings.ToValidUTF8(text[:keywordBytes], "")
}
