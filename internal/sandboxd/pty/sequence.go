package pty

import "strings"

// maxDigits bounds a number in a control sequence, by which the emulator repeats some steps.
const maxDigits = 4

// maxControl is the length at which the emulator ends an unterminated control sequence, in characters.
const maxControl = 256

const escape = 0x1b

// States of a sequence.
const (
	// none
	ground = iota

	// after an escape
	inEscape

	// after ESC [
	inControl

	// one character follows: ESC ( and ESC #
	inCharset

	// a string, such as a title: ends with BEL or ESC \
	inString

	// after the escape in a string
	inStringEnd
)

// sequence parses control sequences exactly as the emulator does, so that both agree on what is text.
type sequence struct {
	state int

	// characters of a control sequence after ESC [
	length int

	// digits of its current number
	digits int

	// it changes only the cursor's line, and does not move the cursor
	local bool

	// the last character of the last control sequence, 0 of another one
	final byte
}

// read processes a character, and reports whether to pass it to the emulator: digits of numbers that are
// too large, and signs, are not passed.
func (s *sequence) read(r rune) bool {
	switch {
	case s.state == inString:
		s.string(r)
	case r == escape:
		*s = sequence{state: inEscape, local: s.state == ground}
	case strings.ContainsRune("\x00\x05\a\b\t\n\v\f\r\x0e\x0f\x11\x13\x18\x1a\x7f", r):
		// the emulator obeys these inside a sequence
		s.local = false
		if r == 0x18 || r == 0x1a {
			s.length = 0
		}
	case s.state == inEscape:
		s.processEscaped(r)
	case s.state == inControl:
		return s.control(r)
	default: // the end of inCharset and inStringEnd
		s.state, s.local = ground, false
	}

	return true
}

// string processes a character of a string.
func (s *sequence) string(r rune) {
	switch r {
	case escape:
		s.state = inStringEnd
	case '\a':
		s.state = ground
	}
}

// processEscaped processes the character after an escape.
func (s *sequence) processEscaped(r rune) {
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

// control processes a character of a control sequence.
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
	// the emulator also looks at one byte only
	if last := byte(r); last >= 0x40 && last <= 0x7e || s.length >= maxControl {
		s.state, s.final = ground, last
		s.local = s.local && (last == 'm' || last == 'K')

		return true
	}

	s.local = s.local && strings.ContainsRune("0123456789;", r)

	return true
}
