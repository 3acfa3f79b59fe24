package cli

import (
	"strconv"
	"strings"
	"unicode"
)

// plain is text without anything that a terminal would obey: names and messages quote what agents and tasks made up. A control
// character is shown as Go writes it.
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

// block is plain text of one or more lines, the later ones indented so that they stay in their column.
func block(text, indent string) string {
	lines := strings.Split(strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = plain(strings.ReplaceAll(line, "\t", "    "))
	}
	return strings.Join(lines, "\n"+indent)
}
