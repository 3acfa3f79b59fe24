package cli

import (
	"strconv"
	"strings"
	"unicode"
)

// plain escapes control characters, as Go quotes them. Names and messages quote agents and tasks, which
// must not control the terminal.
func plain(text string) string {
	var b strings.Builder

	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}

	return b.String()
}

// block escapes text of one or more lines and indents all lines but the first.
func block(text, indent string) string {
	lines := strings.Split(strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = plain(strings.ReplaceAll(line, "\t", "    "))
	}

	return strings.Join(lines, "\n"+indent)
}
