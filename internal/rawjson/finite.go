package rawjson

import "bytes"

// Finite replaces the bare words NaN, Infinity and -Infinity, which Python writes and JSON has not, by
// null. Strings stay as they are. It works on one JSON text as well as on a stream of events.
func Finite(src []byte) []byte {
	if !HasNonFinite(src) {
		return src
	}

	out := make([]byte, 0, len(src))
	for i := 0; i < len(src); {
		if src[i] == '"' {
			c := Cursor{Src: src, At: i}
			c.String()

			if c.Bad {
				return append(out, src[i:]...)
			}

			out, i = append(out, src[i:c.At]...), c.At

			continue
		}

		if n := nonFiniteIndex(src[i:]); n > 0 {
			out, i = append(out, "null"...), i+n
			continue
		}

		out, i = append(out, src[i]), i+1
	}

	return out
}

// HasNonFinite reports whether src may contain NaN or Infinity. It may return true for text in a string.
func HasNonFinite(src []byte) bool {
	return bytes.Contains(src, []byte("NaN")) || bytes.Contains(src, []byte("Infinity"))
}

func nonFiniteIndex(s []byte) int {
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(s, []byte(word)) {
			return len(word)
		}
	}

	return 0
}

// Flat replaces the line ends between the values of a JSON text by spaces.
func Flat(data []byte) []byte {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return data
	}

	out := bytes.Clone(data)
	for i, ch := range out {
		if ch == '\n' || ch == '\r' {
			out[i] = ' '
		}
	}

	return out
}
