package activities

import (
	"strings"
	"unicode/utf8"
)

// tail is the last n characters of s, which may hold anything; what is no text is replaced.
func tail(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	for i := len(s); i > 0 && n > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		if i -= size; n == 1 {
			return s[i:]
		}
	}
	return s
}

// bounded is the first n characters of s, which may hold anything.
func bounded(s string, n int) string { return strings.ToValidUTF8(head(s, n), "\uFFFD") }

// head is the first n characters of s.
func head(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// lastLines is the last n lines of s, blank ones at the end apart.
func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "\n")
}
