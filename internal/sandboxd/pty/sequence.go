package pty

import "strings"

// maxDigits bounds a number of a control sequence. The emulator repeats some steps as often as a sequence says.
const maxDigits = 4

// maxControl is where the emulator ends a control sequence that has no end, in characters.
const maxControl = 256

const escape = 0x1b

// States of a sequence.
const (
	ground      = iota // none
	inEscape           // after an escape
	inControl          // after ESC [
	inCharset          // one character follows: ESC ( and ESC #
	inString           // a string, such as a title: ends with BEL or ESC \
	inStringEnd        // after the escape in a string
)

// sequence follows control sequences exactly as the emulator does: what it takes for text the emulator must take for text.
type sequence struct {
	state  int
	length int  // characters of a control sequence behind ESC [
	digits int  // of its current number
	local  bool // it changes nothing but the line of the cursor, and does not move the cursor
	final  byte // the last character of the last control sequence, 0 of another one
}

// read takes the next character, and says whether the emulator gets it: digits of too large numbers, and signs, it does not get.
func (s *sequence) read(r rune) bool {
	switch {
	case s.state == inString:
		s.string(r)
	case r == escape:
		*s = sequence{state: inEscape, local: s.state == ground}
	case strings.ContainsRune("\x00\x05\a\b\t\n\v\f\r\x0e\x0f\x11\x13\x18\x1a\x7f", r):
		s.local = false // the emulator obeys these within a sequence
		if r == 0x18 || r == 0x1a {
			s.length = 0
		}
	case s.state == inEscape:
		s.begin(r)
	case s.state == inControl:
		return s.control(r)
	default: // the end of inCharset and inStringEnd
		s.state, s.local = ground, false
	}
	return true
}

// string takes a character of a string.
func (s *sequence) string(r rune) {
	switch r {
	case escape:
		s.state = inStringEnd
	case '\a':
		s.state = ground
	}
}

// begin takes the character behind an escape.
func (s *sequence) begin(r rune) {
	switch r {
	case '[':
		s.state = inControl
		return
	case '(', '#':
		s.state = inCharset
	case 'P', '_', '^', ']', 'k':
		s.state = inString
	default:
		s.state = ground
	}
	s.local = false
}

// control takes a character of a control sequence.
func (s *sequence) control(r rune) bool {
	switch {
	case r >= '0' && r <= '9':
		if s.digits++; s.digits > maxDigits {
			return false
		}
	case r == '-' || r == '+':
		return false
	default:
		s.digits = 0
	}
	s.length++
	if last := byte(r); last >= 0x40 && last <= 0x7e || s.length >= maxControl { // the emulator, too, looks at one byte
		s.state, s.final = ground, last
		s.local = s.local && (last == 'm' || last == 'K')
		return true
	}
	s.local = s.local && strings.ContainsRune("0123456789;", r)
	return true
}
