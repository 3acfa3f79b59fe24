package render

import "strconv"

// responseEvent walks an event of the Responses API, or a whole response. Each has the tokens of a text in
// another place.
func (s *stripper) responseEvent() {
	for key := range s.Fields {
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
	if s.Peek() != '{' {
		s.Skip()
		return
	}

	for key := range s.Fields {
		s.responseMember(key)
	}
}

// responseMember replaces the engine's messages by null, as the engine itself writes them.
func (s *stripper) responseMember(key []byte) {
	ch := s.Peek()

	start := s.At
	switch {
	case string(key) == "output" && ch == '[':
		for range s.Elements {
			s.item()
		}
	case !s.View.IDs && ch == '[' && (string(key) == "input_messages" || string(key) == "output_messages"):
		s.Skip()
		s.replaceValue(start, "null")
	case s.Top >= 0 && string(key) == "top_logprobs" && ch != 'n': // echoes the request
		s.Skip()
		s.replaceValue(start, strconv.Itoa(s.Top))
	default:
		s.Skip()
	}
}

func (s *stripper) item() {
	if s.Peek() != '{' {
		s.Skip()
		return
	}

	for key := range s.Fields {
		if string(key) != "content" || s.Peek() != '[' {
			s.Skip()
			continue
		}

		for range s.Elements {
			s.part()
		}
	}
}

func (s *stripper) part() {
	if s.Peek() != '{' {
		s.Skip()
		return
	}

	for key := range s.Fields {
		if string(key) == "logprobs" {
			s.entries()
		} else {
			s.Skip()
		}
	}
}

// entries walks the list of a text's tokens; it is empty if there are none.
func (s *stripper) entries() {
	if s.Peek() != '[' {
		s.Skip()
		return
	}

	if start := s.At; !s.Logprobs {
		s.Skip()
		s.replaceValue(start, "[]")

		return
	}

	for range s.Elements {
		if s.Top < 0 || s.Peek() != '{' {
			s.Skip()
			continue
		}

		s.entry()
	}
}
