package pty

import (
	"io"
	"time"
)

// Feed passes the pieces through the reader of marks, and returns the text and the marks.
func Feed(secret string, pieces ...string) (text string, found []string) {
	m := newMarks(secret)
	for _, piece := range pieces {
		m.feed([]byte(piece), func(b []byte) { text += string(b) }, func(kind byte, value string) { found = append(found, string(kind)+value) })
	}
	return text + string(m.pending), found
}

// Encode is what keys send.
func Encode(application bool, keys ...string) string { return encode(keys, application) }

// Recording is a recording, for tests of its bounds.
type Recording struct{ *recording }

// NewRecording makes one.
func NewRecording() Recording { return Recording{newRecording(80, 24, time.Unix(1, 0))} }

// Output records text.
func (r Recording) Output(text string) { r.output(text) }

// Next returns new lines.
func (r Recording) Next(limit int, reset bool) (string, int64) {
	text, offset := r.next(limit, reset)
	return string(text), offset
}

// MaxRecording is the bound of a recording.
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
