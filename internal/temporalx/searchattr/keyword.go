package searchattr

import "strings"

// keywordBytes bounds a keyword: the SQL stores of Temporal keep 255 characters of one.
const keywordBytes = 200

// Keyword is text as a keyword attribute holds it: its beginning, cut between characters, without NULs, which PostgreSQL cannot
// store. Temporal would try to for ever, and its list would never tell how the rollout stands.
func Keyword(text string) string {
	text = strings.ReplaceAll(text, "\x00", "")
	if len(text) <= keywordBytes {
		return text
	}
	return strings.ToValidUTF8(text[:keywordBytes], "")
}
