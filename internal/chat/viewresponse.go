package chat

import "strconv"

// responseEvent walks an event of the Responses API, or a whole response: each has the tokens of a text somewhere else.
func (s *stripper) responseEvent() {
	for key := range s.fields {
		switch string(key) {
		case "response":
			s.response()
		case "item":
			s.item()
		case "part":
			s.part()
		case "logprobs":
			s.entries()
		default:
			s.responseMember(key)
		}
	}
}

func (s *stripper) response() {
	if s.peek() != '{' {
		s.skip()
		return
	}
	for key := range s.fields {
		s.responseMember(key)
	}
}

// responseMember leaves the engine's messages out as it would itself, by a null.
func (s *stripper) responseMember(key []byte) {
	ch := s.peek()
	start := s.i
	switch {
	case string(key) == "output" && ch == '[':
		for range s.elements {
			s.item()
		}
	case !s.IDs && ch == '[' && (string(key) == "input_messages" || string(key) == "output_messages"):
		s.skip()
		s.put(start, "null")
	case s.Top >= 0 && string(key) == "top_logprobs" && ch != 'n': // it says what it was asked for
		s.skip()
		s.put(start, strconv.Itoa(s.Top))
	default:
		s.skip()
	}
}

func (s *stripper) item() {
	if s.peek() != '{' {
		s.skip()
		return
	}
	for key := range s.fields {
		if string(key) != "content" || s.peek() != '[' {
			s.skip()
			continue
		}
		for range s.elements {
			s.part()
		}
	}
}

func (s *stripper) part() {
	if s.peek() != '{' {
		s.skip()
		return
	}
	for key := range s.fields {
		if string(key) == "logprobs" {
			s.entries()
		} else {
			s.skip()
		}
	}
}

// entries are a text's tokens: a list, and an empty one where there are none.
func (s *stripper) entries() {
	if s.peek() != '[' {
		s.skip()
		return
	}
	if start := s.i; !s.Logprobs {
		s.skip()
		s.put(start, "[]")
		return
	}
	for range s.elements {
		if s.Top < 0 || s.peek() != '{' {
			s.skip()
			continue
		}
		s.entry()
	}
}
