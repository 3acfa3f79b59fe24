package pyjson

const hexDigits = "0123456789abcdef"

// Quote is a text as it stands between the quotes of a JSON string; the text is valid UTF-8. It allocates once.
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

// extra is by how much a byte grows.
func extra(c byte) int {
	switch {
	case c == '"' || c == '\\':
		return 1
	case c < ' ':
		return len(`\u0000`) - 1
	}
	return 0
}
