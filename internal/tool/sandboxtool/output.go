package sandboxtool

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// both returns the output of a command: stdout, then stderr under a heading.
func both(stdout, stderr wire.Output) string {
	out, err := shown(stdout), shown(stderr)
	switch {
	case err == "":
		return out
	case out == "":
		return err
	default:
		return out + "\n[stderr]\n" + err
	}
}

// shown returns one stream as text without trailing line ends. It notes the number of bytes dropped in the
// middle; binary output is not shown.
func shown(o wire.Output) string {
	if total := int64(o.Len()) + o.Omitted; binary(o.Head) || binary(o.Tail) {
		return fmt.Sprintf("[binary output of %d bytes, which is not shown]", total)
	}

	if o.Omitted == 0 {
		return strings.TrimRight(valid(append(bytes.Clone(o.Head), o.Tail...)), "\n")
	}

	head, tail := wholeEnd(o.Head), wholeStart(o.Tail)
	omitted := o.Omitted + int64(o.Len()-len(head)-len(tail))
	text := fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", valid(head), omitted, valid(tail))

	return strings.TrimRight(text, "\n")
}

func valid(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// binary reports whether the bytes are binary: they contain a zero byte, as in git and grep.
func binary(b []byte) bool { return bytes.IndexByte(b, 0) >= 0 }

// wholeEnd removes an incomplete character from the end.
func wholeEnd(b []byte) []byte {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if at := len(b) - n; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return b[:at]
			}

			return b
		}
	}

	return b
}

// wholeStart removes an incomplete character from the start.
func wholeStart(b []byte) []byte {
	n := 0
	for n < len(b) && n < utf8.UTFMax-1 && !utf8.RuneStart(b[n]) {
		n++
	}

	return b[n:]
}
