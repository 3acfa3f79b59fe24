package pty

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// maxRecording bounds a recording, in bytes: the oldest lines are dropped.
const maxRecording = 1 << 20

// recording is a terminal's output as asciicast v2: a header, then one event per line.
type recording struct {
	began time.Time
	lines bytes.Buffer

	// offset of the first byte of lines
	start int64

	// offset up to which PTYStream has returned lines
	read int64
}

func newRecording(cols, rows int, now time.Time) *recording {
	r := &recording{began: now}
	r.line(map[string]any{"version": 2, "width": cols, "height": rows, "timestamp": now.Unix()})

	return r
}

func (r *recording) output(text string) { r.event("o", text) }

func (r *recording) resize(cols, rows int) { r.event("r", fmt.Sprintf("%dx%d", cols, rows)) }

func (r *recording) event(kind, data string) {
	r.line([]any{json.Number(fmt.Sprintf("%.6f", time.Since(r.began).Seconds())), kind, data})
}

func (r *recording) line(v any) {
	encoder := json.NewEncoder(&r.lines)
	encoder.SetEscapeHTML(false)
	// plain values, to memory
	_ = encoder.Encode(v)

	if over := r.lines.Len() - maxRecording; over > 0 {
		drop := r.lines.Bytes()[over:]
		n := over + bytes.IndexByte(drop, '\n') + 1
		r.lines.Next(n)
		r.start += int64(n)
	}
}

// next returns the next unread lines, at most limit bytes but at least one line, and the offset after them.
func (r *recording) next(limit int, reset bool) ([]byte, int64) {
	if reset {
		r.read = 0
	}

	r.read = max(r.read, r.start)

	rest := r.lines.Bytes()[r.read-r.start:]
	if len(rest) > limit {
		end := bytes.LastIndexByte(rest[:limit], '\n')
		if end < 0 {
			end = bytes.IndexByte(rest, '\n')
		}

		rest = rest[:end+1]
	}

	r.read += int64(len(rest))

	return bytes.Clone(rest), r.read
}
