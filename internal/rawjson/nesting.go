package rawjson

// maxNesting is how deep a value may be nested that is to stand within others: readers of JSON give up
// somewhere, Python's at less than a thousand, and a value that readers refuse must not make the enclosing
// one unreadable.
const maxNesting = 256

// Nestable reports whether a JSON text is nested so little that every reader accepts it, also a few levels deeper.
func Nestable(raw []byte) bool {
	depth := 0

	for i := 0; i < len(raw); {
		ch := raw[i]
		i++

		switch ch {
		case '"':
			if i = endOfString(raw, i); i < 0 {
				// not JSON, which other code reports
				return true
			}
		case '{', '[':
			if depth++; depth > maxNesting {
				return false
			}
		case '}', ']':
			depth--
		}
	}

	return true
}
