package pty

import (
	"io"
	"time"
)

// Feed passes the pieces through the reader of marks and returns the text and the marks.
func Feed(secret string, pieces ...string) (text string, found []string) {
	m := newMarks(secret)
	for _, piece := range pieces {
		m.feed(
			[]byte(piece),
			func(b []byte) { text += string(b) },
			func(kind byte, value string) { found = append(found, string(kind)+value) },
		)
	}

	return text + string(m.pending), found
}

// Encode returns the bytes that the keys send.
func Encode(application bool, keys ...string) string { return encode(keys, application) }

// Recording exposes a recording to test its limits.
type Recording struct{ *recording }

// NewRecording makes a Recording.
func NewRecording() Recording { return Recording{newRecording(80, 24, time.Unix(1, 0))} }

// Output records text.
func (r Recording) Output(text string) { r.output(text) }

// Next returns new lines and the offset after them.
func (r Recording) Next(limit int, reset bool) (string, int64) {
	text, offset := r.next(limit, reset)
	return string(text), offset
}

// MaxRecording is the maximum size of a recording.
const MaxRecording = maxRecording

// Show prints the pieces on a screen, resizes it, and returns what it shows.
func Show(cols, rows int, pieces ...string) (string, bool) {
	s := newScreen(80, 24, io.Discard)
	for _, piece := range pieces {
		s.write(piece)
	}

	s.resize(cols, rows)

	return s.text(cols, rows)
}

// Screen exposes a screen with a small limit of unread text.
type Screen struct {
	*screen
	Replies replies
}

// NewScreen makes a Screen that keeps at most keep bytes of unread text. With 0 it passes all text to the
// emulator at once.
func NewScreen(cols, rows, keep int) *Screen {
	s := &Screen{}
	s.screen = newScreen(cols, rows, &s.Replies)
	s.keep = keep

	return s
}

// Print prints text.
func (s *Screen) Print(text string) {
	s.write(text)

	if s.keep == 0 {
		s.show()
	}
}

// Text returns what the screen shows.
func (s *Screen) Text(cols, rows int) (string, bool) { return s.text(cols, rows) }

// Waiting returns the number of bytes that the emulator has not read.
func (s *Screen) Waiting() int { return len(s.unshown) }
