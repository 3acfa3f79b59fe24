package jsonvalue

const hexDigits = "0123456789abcdef"

// Quote escapes a text of valid UTF-8 for a JSON string, without the quotes. It allocates once.
func Quote(text []byte) []byte {
	size := len(text)
	for _, c := range text {
		size += extra(c)
	}

	out := make([]byte, 0, size)

	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c < ' ':
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			out = append(out, c)
		}
	}

	return out
}

// extra returns the number of bytes that escaping adds to a byte.
func extra(c byte) int {
	switch {
	case c == '"' || c == '\\':
		return 1
	case c < ' ':
		return len(`\u0000`) - 1
	}

	return 0
}
