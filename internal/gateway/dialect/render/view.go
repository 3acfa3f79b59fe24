package render

import (
	"bytes"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// View selects the parts of a reply that its reader asked for, among those that the gateway asked for. All
// other parts are always included.
type View struct {
	API reply.API

	// the engine's token ids
	IDs      bool
	Logprobs bool

	// number of alternatives to each token; negative: all
	Top int

	// the event of a stream that has only the counts
	Usage bool
}

// All returns the view with every part.
func All() View { return View{IDs: true, Logprobs: true, Top: -1, Usage: true} }

// firstEvent is the initial buffer for a stream's first event without its ids, in bytes.
const firstEvent = 1 << 10

// Of removes the parts that the reader did not ask for from a chat.completion, a text_completion, a
// response, or a stream of their pieces. All other bytes stay the same; if nothing is removed it returns
// raw itself.
func (v View) Of(raw []byte) []byte {
	if v.IDs && v.Logprobs && v.Top < 0 && v.Usage {
		return raw
	}

	if rawjson.IsObject(raw) {
		out, _ := v.strip(nil, raw)
		return out
	}

	s, done := reply.SSESplitter{Raw: raw}, 0

	var out []byte

	for {
		data, ok := s.Next()
		if !ok {
			data, ok = s.Rest()
		}

		if !ok {
			return append(out, raw[done:]...)
		}
		// the removed part may be most of the reply, and nearly all of a first event with a prompt's ids
		if out == nil {
			out = make([]byte, 0, firstEvent+len(raw[s.Line:])/4)
		}

		out = v.event(append(out, raw[done:s.From]...), &s, data)
		done = s.Line
	}
}

// Assemble assembles a reply as its reader sees it. For a reader without tokens they need not be removed before.
func (v View) Assemble(raw []byte) (AssembledReply, error) {
	if v.API != reply.Chat && v.API != reply.Completions {
		return Assemble(v.API, v.Of(raw))
	}

	c := Completion{legacy: v.API == reply.Completions, bare: !v.IDs && !v.Logprobs, uncounted: !v.Usage}
	if !c.bare {
		raw = v.Of(raw)
	}

	return assembleCompletion(c, raw)
}

// Empty returns an empty reply, which ends an agent's session without an error.
func (v View) Empty(model string) AssembledReply {
	switch v.API {
	case reply.Responses:
		return emptyResponse(model)
	case reply.Messages:
		return emptyMessage(model)
	default:
		c := emptyCompletion(model)
		c.legacy, c.uncounted = v.API == reply.Completions, !v.Usage

		return &c
	}
}

// event appends the latest event as the reader sees it, unless nothing is left of it.
func (v View) event(dst []byte, s *reply.SSESplitter, data []byte) []byte {
	if s.At >= 0 {
		out, keep := v.strip(append(dst, s.Raw[s.From:s.At]...), data)
		if !keep {
			return dst
		}

		return append(out, s.Raw[s.At+len(data):s.Line]...)
	}

	seen, keep := v.strip(nil, data)
	switch {
	case !keep:
		return dst
	case bytes.Equal(seen, data):
		return append(dst, s.Raw[s.From:s.Line]...)
	default:
		return s.Reframe(dst, seen)
	}
}

// strip appends an event as the reader sees it, and reports whether anything is left of it. It keeps an
// unreadable event unchanged.
func (v View) strip(dst, data []byte) (_ []byte, keep bool) {
	s := stripper{Cursor: rawjson.Cursor{Src: data}, View: v, out: dst}
	if v.API == reply.Responses {
		s.responseEvent()
	} else {
		s.object()
	}

	if !s.AtEnd() {
		return append(dst, data...), true
	}

	return append(s.out, data[s.done:]...), v.Usage || !s.counts || s.choices
}

// stripper walks an event and copies the selected parts.
type stripper struct {
	rawjson.Cursor
	View
	out []byte

	// end of the part of b that was copied or skipped
	done int

	// there is a usage
	counts bool

	// there is a choice
	choices bool
}

func (s *stripper) object() {
	for key := range s.Fields {
		switch {
		case !s.View.IDs && string(key) == "prompt_token_ids":
			s.dropMember(s.SkipIDs)
		case string(key) == "choices" && s.Peek() == '[':
			for range s.Elements {
				s.choices = true
				s.choice()
			}
		default:
			s.counts = s.counts || string(key) == "usage" && s.Peek() == '{'
			s.Skip()
		}
	}
}

func (s *stripper) choice() {
	for key := range s.Fields {
		switch string(key) {
		case "token_ids", "response_token_ids", "prompt_token_ids":
			if s.View.IDs {
				s.Skip()
			} else {
				s.dropMember(s.SkipIDs)
			}
		case "weight_versions", "meta_info": // of spans of these ids; SGLang's report, which has them
			if s.View.IDs {
				s.Skip()
			} else {
				s.dropMember(s.Skip)
			}
		case "logprobs":
			s.logprobs()
		default:
			s.Skip()
		}
	}
}

// dropMember omits the next member, whose value skip steps over, and one adjacent comma.
func (s *stripper) dropMember(skip func() []byte) {
	s.out = append(s.out, s.Src[s.done:s.KeyAt]...)

	skip()

	if s.Peek() == ',' {
		s.done = s.At + 1
		return
	}

	s.done = s.At
	s.out = bytes.TrimSuffix(bytes.TrimRight(s.out, " \t\r\n"), []byte(","))
}

// replaceValue replaces the rest of the value that began at start.
func (s *stripper) replaceValue(start int, value string) {
	s.out = append(append(s.out, s.Src[s.done:start]...), value...)
	s.done = s.At
}

func (s *stripper) logprobs() {
	first := s.Peek()
	start := s.At

	switch {
	case first == 'n':
		s.Skip()
		return
	case !s.Logprobs:
		s.Skip()
		s.replaceValue(start, "null")

		return
	case first != '{':
		// a number, as Together has
		s.Skip()
		return
	}

	for key := range s.Fields {
		if string(key) != "content" || s.Peek() != '[' || s.Top < 0 {
			s.Skip()
			continue
		}

		for range s.Elements {
			s.entry()
		}
	}
}

// entry omits the alternatives that the reader did not ask for.
func (s *stripper) entry() {
	for key := range s.Fields {
		if string(key) != "top_logprobs" || s.Peek() != '[' {
			s.Skip()
			continue
		}

		end, count := s.At+1, 0
		for n := range s.Elements {
			s.Skip()

			if count++; n < s.Top {
				end = s.At
			}
		}

		if !s.Bad && count > s.Top {
			s.replaceValue(end, "]")
		}
	}
}
