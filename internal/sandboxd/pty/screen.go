package pty

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/hinshun/vt10x"
)

// maxUnshown bounds the text that the emulator has not processed, in bytes.
const maxUnshown = 256 << 10

// screen is the screen of a terminal. The emulator processes output of untrusted programs: if it panics,
// only the screen is lost.
//
// The emulator needs 100 ns or more for a character, and most of a long output scrolls off unseen. So text
// is processed when the screen is read, and lines that have scrolled off by then are dropped. Only text
// that just fills its own line and scrolls the screen is delayed; text that moves the cursor, changes a
// mode or queries the terminal is processed at once.
type screen struct {
	terminal vt10x.Terminal
	broken   bool
	sequence sequence
	unshown  []byte

	// maximum of unshown, in bytes
	keep int

	// a program has set a scroll region: lines outside it do not scroll off
	margins bool
}

func newScreen(cols, rows int, replies io.Writer) *screen {
	return &screen{terminal: vt10x.New(vt10x.WithSize(cols, rows), vt10x.WithWriter(replies)), keep: maxUnshown}
}

// guard runs f, which uses the emulator, and recovers its panics.
func (s *screen) guard(f func()) {
	if s.broken {
		return
	}

	defer func() {
		if recover() != nil {
			s.broken = true
		}
	}()

	f()
}

// write adds text, which is valid UTF-8.
func (s *screen) write(text string) {
	for text != "" && !s.broken {
		if s.sequence.state == ground {
			n := strings.IndexByte(text, escape)
			if n < 0 {
				n = len(text)
			}

			s.unshown = append(s.unshown, text[:n]...)
			text = text[n:]
		}

		text = s.writeSequence(text)
		if len(s.unshown) > s.keep {
			s.drop()
		}
	}
}

// writeSequence processes text up to the end of the current control sequence, and returns the rest.
func (s *screen) writeSequence(text string) string {
	for i, r := range text {
		if !s.sequence.read(r) {
			continue
		}

		s.unshown = utf8.AppendRune(s.unshown, r)
		if s.sequence.state != ground {
			continue
		}

		if s.sequence.final == 'r' {
			s.margins = s.sequence.length > 1
		}

		if !s.sequence.local {
			s.show()
		}

		return text[i+utf8.RuneLen(r):]
	}

	return ""
}

// show processes all text. An incomplete sequence is then not delayed, since delayed text may be dropped.
func (s *screen) show() {
	s.guard(func() { _, _ = s.terminal.Write(s.unshown) })
	s.unshown, s.sequence.local = s.unshown[:0], false
}

// drop drops the lines that have scrolled off, or processes all if too much would be left. One screen of
// lines moves the cursor to the last line from anywhere, and another one scrolls everything off. The rest
// begins at the first column, as it did in the text.
func (s *screen) drop() {
	_, rows := s.terminal.Size()

	end := len(s.unshown)
	for n := 0; n < 2*rows && end > 0; n++ {
		end = bytes.LastIndexByte(s.unshown[:end], '\n')
	}

	end = bytes.LastIndex(s.unshown[:max(end, 0)], []byte("\r\n"))
	if end < 0 || len(s.unshown)-end > s.keep/2 || s.margins {
		s.show()
		return
	}

	s.unshown = append(s.unshown[:0], s.unshown[end+len("\r\n"):]...)
}

func (s *screen) resize(cols, rows int) {
	s.show()
	s.guard(func() { s.terminal.Resize(cols, rows) })
	s.margins = false
}

// applicationKeys reports whether the program has asked for the application forms of the cursor keys.
func (s *screen) applicationKeys() bool { return s.terminal.Mode()&vt10x.ModeAppCursor != 0 }

// text returns the screen without trailing blanks and blank lines; false: it is not known.
func (s *screen) text(cols, rows int) (string, bool) {
	s.show()

	var lines []string

	s.guard(func() {
		for y := range rows {
			var line strings.Builder

			for x := range cols {
				c := s.terminal.Cell(x, y).Char
				if c < ' ' {
					c = ' '
				}

				line.WriteRune(c)
			}

			lines = append(lines, strings.TrimRight(line.String(), " "))
		}
	})

	return strings.TrimRight(strings.Join(lines, "\n"), "\n"), !s.broken
}
