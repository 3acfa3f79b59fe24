package reply

import (
	"bytes"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// BadArguments is the reason for calls whose form is right, but whose arguments are not JSON objects.
const BadArguments = "a tool call whose arguments are not a JSON object"

// CallShape follows the tool calls of a reply while it arrives, and reports whether they have OpenAI's
// form. The zero value is that of a reply without calls.
//
// OpenAI's streams number the calls, and give the id and the name of a call once, in its first piece. Engines,
// routers and their parsers differ: they number all calls 0 or none, leave out ids, send arguments as an object,
// repeat the name with each piece, or repeat the whole call at the end. JoinCalls finds the calls in them.
type CallShape struct {
	// how the calls differ from OpenAI's form, the first reason; "": not
	Odd   string
	calls []shapeCall
}

type shapeCall struct{ id, args []byte }

// Called reports whether there was a call.
func (s *CallShape) Called() bool { return len(s.calls) > 0 || s.Odd != "" }

// Size returns the memory of the calls, in bytes.
func (s *CallShape) Size() int {
	size := 0
	for _, c := range s.calls {
		size += cap(c.id) + cap(c.args)
	}

	return size
}

// Add takes the next piece. whole: it is from a message, whose list has whole calls, with or without numbers.
func (s *CallShape) Add(p CallPiece, whole bool) {
	if s.Odd != "" {
		return
	}

	if whole {
		p.Index = len(s.calls)
	}

	switch {
	case p.Odd != "":
		s.Odd = p.Odd
	case p.Index < 0:
		s.Odd = "a tool call without index"
	case p.Index > len(s.calls):
		s.Odd = "tool calls that are not numbered from 0"
	case p.Index < len(s.calls):
		s.continues(p)
	default:
		s.begins(p)
	}
}

func (s *CallShape) begins(p CallPiece) {
	switch {
	case len(p.ID) == 0:
		s.Odd = "a tool call without id"
		return
	case p.Name == nil: // an empty one is the model's own
		s.Odd = "a tool call without name"
		return
	case len(s.calls) == maxCalls:
		s.Odd = "too many tool calls"
		return
	}

	for _, c := range s.calls {
		if bytes.Equal(c.id, p.ID) {
			s.Odd = "tool calls with the same id"
			return
		}
	}

	s.calls = append(s.calls, shapeCall{bytes.Clone(p.ID), bytes.Clone(p.Args)})
}

func (s *CallShape) continues(p CallPiece) {
	c := &s.calls[p.Index]
	switch {
	case len(p.ID) > 0 && !bytes.Equal(p.ID, c.id):
		s.Odd = "tool calls with the same index"
	case len(p.Name) > 0:
		s.Odd = "a tool call that repeats its name"
	default:
		c.args = append(c.args, p.Args...)
	}
}

// Close checks the arguments of the complete calls. Arguments of a reply that its token limit cut off may
// be incomplete.
func (s *CallShape) Close(truncated bool) {
	for _, c := range s.calls {
		if _, ok := object(c.args); !ok && !truncated && s.Odd == "" {
			s.Odd = BadArguments
		}
	}
}

// ChoiceIndex returns the index of the choice that comes next, as it is written; "0" if it has none.
func ChoiceIndex(c rawjson.Cursor) []byte {
	index := []byte("0")

	for key := range c.Fields {
		if string(key) == "index" {
			if at := c.Skip(); !bytes.Equal(at, []byte("null")) {
				return at
			}

			return index
		}

		c.Skip()
	}

	return index
}
