package pty_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/pty"
)

func TestMarks(t *testing.T) {
	t.Parallel()

	whole := "a\x1b]133;S;C\ab\x1b]133;S;D;12\ac\x1b]133;X;C\ad\x1b]133;S;" + strings.Repeat("z", 60) + "\a\x1b"
	text := "abc\x1b]133;X;C\ad\x1b]133;S;" + strings.Repeat("z", 60) + "\a\x1b"

	for i := range len(whole) {
		for j := i; j < len(whole); j += 7 {
			got, found := pty.Feed("S", whole[:i], whole[i:j], whole[j:])
			require.Equal(t, text, got)
			require.Equal(t, []string{"C", "D12"}, found)
		}
	}
}

// For any output in any pieces, no text is lost and the marks are the same.
func FuzzMarks(f *testing.F) {
	f.Add("a\x1b]133;S;C\ab", 3)
	f.Add("\x1b]133;S;\a\x1b]133;S;D;\a", 9)
	f.Fuzz(func(t *testing.T, data string, at int) {
		at = min(max(at, 0), len(data))
		text, found := pty.Feed("S", data)
		cutText, cutFound := pty.Feed("S", data[:at], data[at:])
		require.Equal(t, text, cutText)
		require.Equal(t, found, cutFound)

		if !strings.Contains(data, "\x1b]133;S;") {
			require.Equal(t, data, text)
		}
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ls -l\r", pty.Encode(false, "ls -l", "Enter"))
	require.Equal(t, "\x03\x1a\x1b\x00", pty.Encode(false, "C-c", "^Z", "C-[", "C-Space"))
	require.Equal(t, "\x1bx\x1b\x1b[A", pty.Encode(false, "M-x", "M-Up"))
	require.Equal(t, "\x1b[A\x1b[5~\x1b[15~\x1bOP", pty.Encode(false, "Up", "PPage", "F5", "F1"))
	require.Equal(t, "\x1bOA\x1bOH\x1b[5~", pty.Encode(true, "Up", "Home", "PageUp"))
	require.Equal(t, "enterC-éC-", pty.Encode(false, "enter", "C-é", "C-"))
}

func TestRecording(t *testing.T) {
	t.Parallel()

	r := pty.NewRecording()
	r.Output("<a>\x1b")
	text, offset := r.Next(1, false)
	require.Equal(t, "{\"height\":24,\"timestamp\":1,\"version\":2,\"width\":80}\n", text, "one line at least")
	require.EqualValues(t, len(text), offset)
	text, _ = r.Next(1000, false)
	require.True(t, strings.HasSuffix(text, "\"o\",\"<a>\\u001b\"]\n"), text)
	text, _ = r.Next(1000, false)
	require.Empty(t, text)

	for range 300 {
		r.Output(strings.Repeat("x", 10_000))
	}

	text, offset = r.Next(10*pty.MaxRecording, true)
	require.LessOrEqual(t, len(text), pty.MaxRecording)
	require.True(t, strings.HasPrefix(text, "["), text[:10])
	require.Greater(t, offset, int64(3_000_000))
}

// A program cannot keep the emulator busy with a huge number in an escape sequence.
func TestNumbersOfSequencesAreBounded(t *testing.T) {
	t.Parallel()

	text, ok := pty.Show(80, 24, "one\x1b[92233720368547", "75807Itwo 123456\x1b[-5J\x1b[2;3Hx\x1b[1A")
	require.True(t, ok)
	require.Equal(t, "one", text[:3])
	require.Contains(t, text, "\nwox123456")
}

// A screen that skips text which has scrolled off shows the same and replies the same as a screen that
// reads everything.
func TestScreenThatSkipsText(t *testing.T) {
	t.Parallel()

	lines := func(n int, line string) string { return strings.Repeat(line, n) }
	for name, pieces := range map[string][]string{
		"lines":            {lines(500, "one\r\n"), "two\r\nthree"},
		"long lines":       {"head\r\n", lines(200, strings.Repeat("x", 90)+"\r\n"), "end"},
		"no line end":      {"head\r\n", strings.Repeat("abcdefg", 300), "\r\nend"},
		"bare line feeds":  {"      head", lines(300, "a\n"), "end"},
		"colours":          {lines(300, "\x1b[1;32mok\x1b[0m\x1b[K\r\n"), "\x1b[31mlast"},
		"region":           {"\x1b[3;6r\x1b[9;1Hoverwritten", lines(300, "a\r\n"), "b"},
		"region taken off": {"\x1b[3;6r\x1b[9;1Hbelow\x1b[r", lines(300, "a\r\n"), "b"},
		"cut sequence":     {lines(100, "a\r\n") + "\x1b[3", "1", "mred" + lines(100, "\r\nb") + "\x1b", "[2J", "c"},
		"title":            {"\x1b]0;" + lines(200, "not shown\r\n"), "\x1b", "\\shown"},
		"control within":   {"\x1b[\r\n3", "1m" + lines(200, "a\r\n") + "\x1b\r\n[2Bx"},
		"wide final":       {"\x1b[2;4Ų\x1b[9;1Hbelow" + lines(200, "a\r\n") + "c"},
		"graphics":         {"\x1b(0", lines(200, "qx\r\n"), "\x1b(Bq"},
		"alternate":        {"before\r\n\x1b[?1049h" + lines(200, "a\r\n") + "b\x1b[?1049lafter"},
		"asks":             {lines(200, "a\r\n") + "ab\x1b[6n" + lines(200, "c\r\n")},
	} {
		all, some := pty.NewScreen(20, 10, 0), pty.NewScreen(20, 10, 200)
		for _, piece := range pieces {
			all.Print(piece)
			some.Print(piece)
			require.LessOrEqual(t, some.Waiting(), 200, name)
		}

		want, wantOK := all.Text(20, 10)
		text, ok := some.Text(20, 10)
		require.Equal(t, want, text, name)
		require.Equal(t, wantOK, ok, name)
		require.Equal(t, string(all.Replies), string(some.Replies), name)
	}
}

func FuzzScreenThatSkipsText(f *testing.F) {
	f.Add("one\r\n\x1b[31mtwo\x1b[K\r\n\x1b[6n", 30, 5, 50)
	f.Add("\x1b[2;4ra\r\n\x1b[r", 9, 3, 8)
	f.Add("\x1b]0;t\r\n\x1b\\a\x1b(0q\x1b\r\n[1;1H", 200, 7, 64)
	f.Fuzz(func(t *testing.T, text string, times, cut, keep int) {
		text = strings.ToValidUTF8(text[:min(len(text), 2000)], "?")

		all, some := pty.NewScreen(20, 10, 0), pty.NewScreen(20, 10, min(max(keep, 1), 500))
		for range min(max(times, 1), 100) {
			at := min(max(cut, 0), len(text))
			for !utf8.RuneStart(append([]byte(text), 'a')[at]) {
				at--
			}

			for _, piece := range []string{text[:at], text[at:]} {
				all.Print(piece)
				some.Print(piece)
			}
		}

		want, wantOK := all.Text(20, 10)
		got, ok := some.Text(20, 10)
		// the emulator may fail on text that is left out
		if wantOK && ok {
			require.Equal(t, want, got)
			require.Equal(t, string(all.Replies), string(some.Replies))
		}
	})
}

func FuzzScreen(f *testing.F) {
	f.Add("\x1b[99999999999I\x1b[5;1r\x1b[99L\x1b]0;t\a", 20, 10)
	f.Add("\x1b[?1049h\x1b[?6h\x1b[3;9H\x1b[4P\x1b[99@\x1b(0q", 500, 200)
	f.Fuzz(func(_ *testing.T, text string, cols, rows int) {
		pty.Show(min(max(cols, 20), 500), min(max(rows, 10), 200), text)
	})
}
