package reply

import "encoding/json"

// scan follows the brackets of a JSON object that arrives in parts, so that its end is found without
// reading it again after each part.
type scan struct {
	// decoded
	text  []byte
	depth int

	// there is more than white space
	started bool

	// the object's last bracket came
	ended bool

	// in a string
	quote bool

	// after a backslash in a string
	slash bool

	// not an object, whatever follows
	bad bool
}

// add reads the next part, given with its escapes.
func (s *scan) add(part []byte) {
	value, ok := decode(part)
	s.bad = s.bad || !ok

	s.text = append(s.text, value...)
	for _, ch := range value {
		s.step(ch)
	}
}

func (s *scan) step(ch byte) {
	space := ch == ' ' || ch == '\t' || ch == '\r' || ch == '\n'
	switch {
	case s.bad:
	case s.quote:
		s.quote = ch != '"' || s.slash
		s.slash = ch == '\\' && !s.slash
	case space:
	case s.ended, !s.started && ch != '{':
		s.started, s.bad = true, true
	case ch == '"':
		s.quote = true
	case ch == '{' || ch == '[':
		s.started = true
		s.depth++
	case ch == '}' || ch == ']':
		s.depth--
		s.ended = s.depth == 0
		s.bad = s.ended && !json.Valid(s.text)
	}
}

// isObject reports whether the parts are an object.
func (s *scan) isObject() bool { return s.ended && !s.bad }
