package sandboxtool_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/tool/sandboxtool"
)

func TestPlain(t *testing.T) {
	t.Parallel()

	for raw, want := range map[string]string{
		"a\r\nb\r\n":                             "a\nb\n",
		"\x1b[1;31mred\x1b[0m":                   "red",
		"10%\r50%\r100%\r\n":                     "100%\n",
		"\x1b]0;title\aname\x1b]8;;u\x1b\\x":     "namex",
		"ab\bc\t1":                               "ac\t1",
		"cut off \x1b[3":                         "cut off ",
		"\x1b(Bplain\x1b=\x00\x07":               "plain",
		"\x1b]never ends\nthe next line is kept": "\nthe next line is kept",
	} {
		require.Equal(t, want, sandboxtool.Plain(raw), "%q", raw)
	}
}

// For any split of a stream, the text is valid and states how many bytes are left out. No character is shown in part.
func TestShown(t *testing.T) {
	t.Parallel()

	text := strings.Repeat("é€😀", 3)
	for i := range len(text) {
		for j := i; j <= len(text); j++ {
			got := sandboxtool.Shown(wire.Output{Head: []byte(text[:i]), Tail: []byte(text[j:]), Omitted: 7})
			require.True(t, utf8.ValidString(got))
			require.NotContains(t, got, "\uFFFD")
			require.Contains(t, got, "bytes left out")
		}
	}
}

// For any output of a program, the shown text is valid and has no control characters that affect a terminal.
func FuzzShown(f *testing.F) {
	f.Add("a\x1b[31", "m\xffb\r\b", int64(0))
	f.Add("\x1b]x\x1b", "\xe2\x82", int64(9))
	f.Fuzz(func(t *testing.T, head, tail string, omitted int64) {
		o := wire.Output{
			Head:    []byte(sandboxtool.Plain(head)),
			Tail:    []byte(sandboxtool.Plain(tail)),
			Omitted: omitted & 0xffff,
		}
		got := sandboxtool.Shown(o)
		require.True(t, utf8.ValidString(got))
		require.False(t, strings.ContainsAny(got, "\x00\x07\x1b\r\x7f"), "%q", got)
	})
}
