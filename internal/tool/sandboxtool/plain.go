package sandboxtool

import "strings"

// plain returns a terminal's output as text: without control sequences, and with only the last state of an
// overwritten line.
func plain(raw string) string {
	var out strings.Builder

	for line := range strings.SplitAfterSeq(withoutSequences(raw), "\n") {
		body, end := strings.TrimSuffix(line, "\n"), ""
		if len(body) < len(line) {
			end = "\n"
		}

		body = strings.TrimRight(body, "\r")
		if at := strings.LastIndexByte(body, '\r'); at >= 0 {
			body = body[at+1:]
		}

		out.WriteString(backspaced(body) + end)
	}

	return out.String()
}

// withoutSequences removes escape sequences and control characters except \n, \r, \t and \b.
func withoutSequences(raw string) string {
	var out strings.Builder

	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == 0x1b:
			i += sequence(raw[i:])
		case c >= ' ' && c != 0x7f || c == '\n' || c == '\r' || c == '\t' || c == '\b':
			out.WriteByte(c)

			i++
		default:
			i++
		}
	}

	return out.String()
}

// sequence returns the length of the escape sequence at the start of s.
func sequence(s string) int {
	if len(s) < 2 {
		return len(s)
	}

	switch s[1] {
	case '[': // CSI: parameters, then a final byte
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}

			if s[i] < 0x20 {
				return i
			}
		}

		return len(s)
	case ']', 'P', '_', '^', 'X': // strings, up to BEL or ST
		for i := 2; i < len(s); i++ {
			if s[i] == '\a' {
				return i + 1
			}

			if s[i] == 0x1b {
				return min(i+2, len(s))
			}

			if s[i] == '\n' {
				return i
			}
		}

		return len(s)
	case '(', ')', '*', '+', '#', ' ', '%':
		return min(3, len(s))
	default:
		return 2
	}
}

func backspaced(line string) string {
	if !strings.ContainsRune(line, '\b') {
		return line
	}

	var kept []rune
	for _, r := range line {
		if r != '\b' {
			kept = append(kept, r)
		} else if len(kept) > 0 {
			kept = kept[:len(kept)-1]
		}
	}

	return string(kept)
}
