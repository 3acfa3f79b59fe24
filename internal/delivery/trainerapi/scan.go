package trainerapi

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// scanner parses a JSON text in one pass. Most of a scored group are lists of numbers: it checks each
// number and keeps none.
type scanner struct {
	b []byte
	i int
}

// Bounds of a scored group.
const (
	maxDepth     = 64
	maxSequences = 4096
)

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// skipByte skips the byte, and space before it, if it comes next.
func (s *scanner) skipByte(c byte) bool {
	s.space()

	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}

	return false
}

// null skips a null.
func (s *scanner) null() bool {
	s.space()

	if s.i+4 <= len(s.b) && string(s.b[s.i:s.i+4]) == "null" {
		s.i += 4
		return true
	}

	return false
}

// broken returns the error for a text that is not the JSON that the field must be or have.
func (s *scanner) broken(field, must string) error {
	rest := s.b[min(s.i, len(s.b)):]
	if len(rest) > 12 {
		rest = rest[:12]
	}

	return fault.Field(field, "%s, got %q at byte %d", must, rest, s.i)
}

// key reads the name of a member and its colon.
func (s *scanner) key() (string, error) {
	raw, err := s.text()
	if err != nil {
		return "", err
	}

	var name string
	if err := json.Unmarshal(raw, &name); err != nil {
		return "", s.broken("body", "must have valid names of members")
	}

	if !s.skipByte(':') {
		return "", s.broken("body", "must have a colon after the name of a member")
	}

	return name, nil
}

// text reads a string with its quotes.
func (s *scanner) text() ([]byte, error) {
	s.space()

	start := s.i
	if !s.skipByte('"') {
		return nil, s.broken("body", "must have the name of a member in quotes")
	}

	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			return s.b[start:s.i], nil
		}
	}

	return nil, s.broken("body", "must have a quote at the end of each string")
}

// value reads and checks any value: strings, numbers and nesting.
func (s *scanner) value(field string) ([]byte, error) {
	s.space()

	start, depth := s.i, 0
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case '"':
			if _, err := s.text(); err != nil {
				return nil, err
			}

			s.i--
		case '[', '{':
			if depth++; depth > maxDepth {
				return nil, fault.Field(field, "must have at most %d levels of nesting", maxDepth)
			}

			continue
		case ']', '}':
			if depth--; depth < 0 {
				return s.checked(field, start)
			}
		case ',':
			if depth == 0 {
				return s.checked(field, start)
			}

			continue
		default:
			continue
		}

		if depth == 0 {
			s.i++
			return s.checked(field, start)
		}
	}

	return s.checked(field, start)
}

func (s *scanner) checked(field string, start int) ([]byte, error) {
	raw := s.b[start:s.i]
	if !json.Valid(raw) {
		s.i = start
		return nil, s.broken(field, "must be JSON with finite numbers")
	}

	return raw, nil
}

// list reads a list and calls each for every element, at most most of them.
func (s *scanner) list(field string, most int, each func(n int) error) (n int, err error) {
	if !s.skipByte('[') {
		return 0, s.broken(field, "must be a list")
	}

	if s.skipByte(']') {
		return 0, nil
	}

	for {
		if n == most {
			return 0, fault.Field(field, "must have at most %d elements", most)
		}

		if err := each(n); err != nil {
			return 0, err
		}

		n++
		if s.skipByte(']') {
			return n, nil
		}

		if !s.skipByte(',') {
			return 0, s.broken(at(field, n-1), "must be followed by a comma or the end of the list")
		}
	}
}

func at(field string, indices ...int) string {
	for _, i := range indices {
		field += fmt.Sprintf("[%d]", i)
	}

	return field
}

// ints checks a list of whole numbers from least to most and counts them.
func (s *scanner) ints(field string, least, most int64) (n int, err error) {
	if !s.skipByte('[') {
		return 0, s.broken(field, "must be a list of whole numbers")
	}

	if s.skipByte(']') {
		return 0, nil
	}

	for {
		s.space()

		start := s.i
		if s.i < len(s.b) && s.b[s.i] == '-' {
			s.i++
		}

		digits := s.digits()
		if digits == 0 || digits > 1 && s.b[s.i-digits] == '0' {
			s.i = start
			return 0, s.broken(at(field, n), "must be a whole number")
		}

		if text := s.b[start:s.i]; digits > smallDigits || text[0] == '-' && least == 0 {
			v, err := strconv.ParseInt(string(text), 10, 64)
			if err != nil || v < least || v > most {
				return 0, fault.Field(at(field, n), "must be a whole number from %d to %d, got %.30s",
					least, most, text)
			}
		}

		n++

		switch {
		case s.skipByte(','):
		case s.skipByte(']'):
			return n, nil
		default:
			s.i = start
			return 0, s.broken(at(field, n-1), "must be a whole number")
		}
	}
}

// smallDigits is the number of digits up to which every number is within ±2^31. Nearly all numbers of a group are such,
// and need not be parsed.
const smallDigits = 9

// digits skips digits and counts them.
func (s *scanner) digits() int {
	start := s.i
	for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
		s.i++
	}

	return s.i - start
}

// floats checks a list of finite numbers and counts them.
func (s *scanner) floats(field string) (n int, err error) {
	if !s.skipByte('[') {
		return 0, s.broken(field, "must be a list of numbers")
	}

	if s.skipByte(']') {
		return 0, nil
	}

	for {
		if err := s.float(field, n); err != nil {
			return 0, err
		}

		n++

		switch {
		case s.skipByte(','):
		case s.skipByte(']'):
			return n, nil
		default:
			return 0, s.broken(at(field, n-1), "must be a finite number")
		}
	}
}

// float skips a finite number: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *scanner) float(field string, n int) error {
	s.space()

	start := s.i
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}

	whole := s.digits()

	ok := whole > 0 && (whole == 1 || s.b[s.i-whole] != '0')
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		ok = s.digits() > 0 && ok
	}

	plain := whole < 300

	if s.i < len(s.b) && (s.b[s.i] == 'e' || s.b[s.i] == 'E') {
		if s.i++; s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}

		ok = s.digits() > 0 && ok
		plain = false
	}

	if ok && !plain {
		v, err := strconv.ParseFloat(string(s.b[start:s.i]), 64)
		ok = err == nil && !math.IsInf(v, 0)
	}

	if !ok {
		s.i = start
		return s.broken(at(field, n), "must be a finite number")
	}

	return nil
}
