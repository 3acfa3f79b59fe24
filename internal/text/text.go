// Package text cuts text of any content to a number of characters. Positions count Unicode characters, not bytes.
package text

import (
	"strings"
	"unicode/utf8"
)

// Tail returns the last n characters of s. Bytes that are not UTF-8 become U+FFFD.
func Tail(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for i := len(s); i > 0 && n > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		if i -= size; n == 1 {
			return s[i:]
		}
	}

	return s
}

// Head returns the first n characters of s as they are.
func Head(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}

		n--
	}

	return s
}

// HeadUTF8 returns the first n characters of s. Bytes that are not UTF-8 become U+FFFD.
func HeadUTF8(s string, n int) string { return strings.ToValidUTF8(Head(s, n), "\uFFFD") }

// LastLines returns the last n lines of s without blank lines at its end.
func LastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}
