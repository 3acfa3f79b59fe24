package reply

import (
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/sse"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Stream collects the bytes of a reply in server-sent events and reads each event as soon as it is whole. A line may be as
// long as the reply.
type Stream struct {
	Reply
	split sse.Splitter
}

// Expect makes room for a reply of about so many bytes, which then need not be moved as they come.
func (s *Stream) Expect(n int) { s.split.Raw = make([]byte, 0, n) }

// Room returns space for at least n more bytes, to be read into. It grows fourfold at first, then
// twofold: replies are a few kilobytes, or many.
func (s *Stream) Room(n int) []byte {
	raw := s.split.Raw
	if cap(raw)-len(raw) < n {
		size := 4 * cap(raw)
		if cap(raw) >= 128<<10 {
			size = 2 * cap(raw)
		}
		raw = append(make([]byte, 0, max(size, len(raw)+n)), raw...)
		s.split.Raw = raw
	}
	return raw[len(raw):cap(raw)]
}

// Advance takes in the first n bytes of what Room gave. The error is of an event that cannot be read.
func (s *Stream) Advance(n int) error {
	s.split.Raw = s.split.Raw[:len(s.split.Raw)+n]
	for {
		data, ok := s.split.Next()
		if !ok {
			return nil
		}
		if err := s.event(data); err != nil {
			return err
		}
	}
}

// Close reads what a stream without a last empty line left behind, and settles the reply.
func (s *Stream) Close() error {
	defer s.Finish()
	if data, ok := s.split.Rest(); ok {
		return s.event(data)
	}
	return nil
}

// event reads one event, and keeps track of where the prompt's ids stand.
func (s *Stream) event(data []byte) error {
	before := s.prompts
	err := s.Event(data)
	switch {
	case s.prompts == before || s.PromptAt.End == 0:
	case s.split.At < 0:
		s.PromptAt = rawjson.Span{}
	default:
		s.PromptAt.Start += s.split.At
		s.PromptAt.End += s.split.At
	}
	return err
}

// Done says that the stream's own end mark came.
func (s *Stream) Done() bool { return s.split.Done || s.over }

// Whole is how much of Raw is whole events: each is ended by an empty line, however the lines of the stream end.
func (s *Stream) Whole() int { return s.split.Began }

// Raw is all that came so far, as it came.
func (s *Stream) Raw() []byte { return s.split.Raw }
