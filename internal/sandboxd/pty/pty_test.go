package pty_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/pty"
)

func TestMarks(t *testing.T) {
	t.Parallel()
	whole := "a\x1b]133;S;C\ab\x1b]133;S;D;12\ac\x1b]133;X;C\ad\x1b]133;S;" + strings.Repeat("z", 20) + "\a\x1b"
	text := "abc\x1b]133;X;C\ad\x1b]133;S;" + strings.Repeat("z", 20) + "\a\x1b"
	for i := range len(whole) {
		for j := i; j < len(whole); j += 7 {
			got, found := pty.Feed("S", whole[:i], whole[i:j], whole[j:])
			require.Equal(t, text, got)
			require.Equal(t, []string{"C", "D12"}, found)
		}
	}
}

// Whatever is printed and however it is cut, no text is lost, and the marks are the same.
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

// A program cannot make the emulator work without end, whatever number it prints.
func TestScreenIsTamed(t *testing.T) {
	t.Parallel()
	text, ok := pty.Show(80, 24, "one\x1b[92233720368547", "75807Itwo 123456\x1b[-5J\x1b[2;3Hx\x1b[1A")
	require.True(t, ok)
	require.Equal(t, "one", text[:3])
	require.Contains(t, text, "\nwox123456")
}

func FuzzScreen(f *testing.F) {
	f.Add("\x1b[99999999999I\x1b[5;1r\x1b[99L\x1b]0;t\a", 20, 10)
	f.Add("\x1b[?1049h\x1b[?6h\x1b[3;9H\x1b[4P\x1b[99@\x1b(0q", 500, 200)
	f.Fuzz(func(_ *testing.T, text string, cols, rows int) {
		pty.Show(min(max(cols, 20), 500), min(max(rows, 10), 200), text)
	})
}
