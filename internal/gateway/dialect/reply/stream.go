package reply

import (
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Stream collects the bytes of a reply in server-sent events and reads each complete event at once. A line
// may be as long as the reply.
type Stream struct {
	*Reply
	split  SSESplitter
	events int

	// Prelude is set
	marked bool
}

// NewStream returns a Stream whose events are read into r.
func NewStream(r *Reply) *Stream { return &Stream{Reply: r} }

// Expect allocates a buffer for a reply of about n bytes, which then need not be moved.
func (s *Stream) Expect(n int) { s.split.Raw = make([]byte, 0, n) }

// Room returns space for at least n more bytes, to be read into.
func (s *Stream) Room(n int) []byte {
	raw := s.split.Raw
	if size := s.Capacity(n); size > cap(raw) {
		raw = append(make([]byte, 0, size), raw...)
		s.split.Raw = raw
	}

	return raw[len(raw):cap(raw)]
}

// Capacity returns the capacity of the buffer after Room(n). It grows fourfold at first, later by half:
// replies are a few kilobytes or many, and unused room of a large one is memory that others lack.
func (s *Stream) Capacity(n int) int {
	length, size := len(s.split.Raw), cap(s.split.Raw)
	switch {
	case size-length >= n:
		return size
	case size < 128<<10:
		return max(4*size, length+n)
	case size < 1<<20:
		return max(2*size, length+n)
	default:
		return max(size+size/2, length+n)
	}
}

// Decoded returns the memory of the decoded parts, without the reply's bytes.
func (s *Stream) Decoded() int {
	const id, logprob, both = 4, 8, 16

	return id*(cap(s.PromptTokenIDs)+cap(s.TokenIDs)+cap(s.named)) + logprob*cap(s.Logprobs) + both*cap(
		s.meta,
	) + s.calls.Size()
}

// Unread returns the number of bytes that are not decoded yet: those of an incomplete event, or of a reply
// that is one object.
func (s *Stream) Unread() int {
	if rawjson.IsObject(s.Raw()) {
		return len(s.Raw())
	}

	return len(s.Raw()) - s.CompleteLength()
}

// Advance reads the first n bytes of the space that Room returned. The error is about an event that cannot be read.
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

// Close reads a last event without an empty line after it, and finishes the reply.
func (s *Stream) Close() error {
	defer s.Finish()

	if rawjson.IsObject(s.Raw()) && s.inPieces {
		s.irregular("a delta in a reply that is not a stream")
	}

	if data, ok := s.split.Rest(); ok {
		return s.event(data)
	}

	return nil
}

// event reads one event and tracks the position of the prompt's ids.
func (s *Stream) event(data []byte) error {
	s.events++
	before := s.prompts

	err := s.Event(data)
	// its events are shown to agents as they are
	s.ExpertsAt, s.MaskAt, s.MaskLogprobsAt = rawjson.Span{}, rawjson.Span{}, rawjson.Span{}

	if s.inMessage {
		s.irregular("a message in a stream")
	}

	if !s.marked && (s.FinishReason != "" || s.Irregular != "" || s.called) {
		s.marked, s.Prelude = true, s.split.From
	}

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

// Events returns the number of events of the reply so far, without comments and events that only keep the
// connection alive.
func (s *Stream) Events() int { return s.events - s.pings }

// Done reports whether the stream's end mark came.
func (s *Stream) Done() bool { return s.split.Done || s.over }

// CompleteLength returns the length of the complete events in Raw: each ends with an empty line, in any style of
// line ends.
func (s *Stream) CompleteLength() int { return s.split.Began }

// Passable returns the length of the events that an agent may see before the reply is complete; see Prelude.
func (s *Stream) Passable() int {
	if s.marked {
		return s.Prelude
	}

	return s.CompleteLength()
}

// Raw returns the bytes so far.
func (s *Stream) Raw() []byte { return s.split.Raw }
