package pty

import (
	"io"
	"strings"

	"github.com/hinshun/vt10x"
)

// maxDigits bounds a number of a control sequence. The emulator repeats some steps as often as a sequence says.
const maxDigits = 4

// screen is what a terminal shows. The emulator reads what untrusted programs print: where it panics there is no screen any more, and
// nothing else is lost.
type screen struct {
	terminal vt10x.Terminal
	broken   bool
	state    byte // of the sequence that is being read: 0 none, 27 after an escape, '[' within a control sequence
	digits   int  // of its current number
}

func newScreen(cols, rows int, replies io.Writer) *screen {
	return &screen{terminal: vt10x.New(vt10x.WithSize(cols, rows), vt10x.WithWriter(replies))}
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

// write shows text.
func (s *screen) write(text string) {
	s.guard(func() { _, _ = s.terminal.Write([]byte(strings.Map(s.tame, text))) })
}

// tame drops digits of too large numbers, and signs, from control sequences.
func (s *screen) tame(r rune) rune {
	switch {
	case r == 0x1b:
		s.state = 0x1b
	case s.state == 0x1b:
		s.state, s.digits = 0, 0
		if r == '[' {
			s.state = '['
		}
	case s.state != '[':
	case r >= '0' && r <= '9':
		if s.digits++; s.digits > maxDigits {
			return -1
		}
	case r == '-' || r == '+':
		return -1
	case r >= 0x40 && r <= 0x7e:
		s.state = 0
	default:
		s.digits = 0
	}
	return r
}

func (s *screen) resize(cols, rows int) { s.guard(func() { s.terminal.Resize(cols, rows) }) }

// applicationKeys says whether the program has asked for the application forms of the cursor keys.
func (s *screen) applicationKeys() bool { return s.terminal.Mode()&vt10x.ModeAppCursor != 0 }

// text is the screen without blanks at the end of its lines, and without blank lines at its end; false: it is not known.
func (s *screen) text(cols, rows int) (string, bool) {
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
