package pty

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/hinshun/vt10x"
)

// maxUnshown bounds the text that the emulator has not read yet, in bytes.
const maxUnshown = 256 << 10

// screen is what a terminal shows. The emulator reads what untrusted programs print: where it panics there is no screen any more, and
// nothing else is lost.
//
// The emulator takes 100 ns and more for a character, and most of a long output scrolls off before anybody looks. So text waits until
// the screen is asked for, and lines that have scrolled off by then are dropped. Text waits as long as each character of it changes
// its own line and scrolls the screen, and nothing else; what moves the cursor, changes a mode or asks the terminal is shown at once.
type screen struct {
	terminal vt10x.Terminal
	broken   bool
	sequence sequence
	unshown  []byte
	keep     int  // most bytes of unshown
	margins  bool // a program has set a scroll region: lines outside it do not scroll off
}

func newScreen(cols, rows int, replies io.Writer) *screen {
	return &screen{terminal: vt10x.New(vt10x.WithSize(cols, rows), vt10x.WithWriter(replies)), keep: maxUnshown}
}

// guard runs f, which uses the emulator.
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

// write takes text, which is valid UTF-8.
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

// writeSequence takes text up to the end of the control sequence that it begins with or continues, and returns the rest.
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

// show gives the emulator all text. The rest of a sequence that has only begun must not wait then: what waits could be dropped.
func (s *screen) show() {
	s.guard(func() { _, _ = s.terminal.Write(s.unshown) })
	s.unshown, s.sequence.local = s.unshown[:0], false
}

// drop drops the lines that have scrolled off, or shows all where too much would be left. Wherever the cursor was, a screen of lines moves
// it to the last line, and another one scrolls all that was there off. What is left begins at the first column, as it did in the text.
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

// applicationKeys says whether the program has asked for the application forms of the cursor keys.
func (s *screen) applicationKeys() bool { return s.terminal.Mode()&vt10x.ModeAppCursor != 0 }

// text is the screen without blanks at the end of its lines, and without blank lines at its end; false: it is not known.
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
