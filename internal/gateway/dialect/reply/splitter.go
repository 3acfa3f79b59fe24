package reply

import (
	"bytes"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// SSESplitter splits server-sent events from raw, which may grow meanwhile. All lines end as the first one
// does: in LF, CRLF or CR.
type SSESplitter struct {
	Raw []byte

	// the last byte of each line's end; 0: no line has ended yet
	eol byte

	// start of the incomplete line
	Line int

	// end of the search for a line end
	searched int

	// start of the incomplete event
	Began int

	// start of the latest event; it ends at Line
	From int

	// data of the incomplete event
	data []byte

	// lines of data
	lines int

	// start of data in Raw; -1 for an event of several lines, which are joined
	At int

	// the stream's end mark came; the rest is ignored
	Done bool
}

// bom may be at the beginning of a stream and is ignored.
const bom = "\ufeff"

// Next returns the data of the next complete event.
func (s *SSESplitter) Next() ([]byte, bool) {
	if s.eol == 0 && !s.learn() {
		return nil, false
	}

	for {
		end := bytes.IndexByte(s.Raw[s.searched:], s.eol)
		if end < 0 {
			s.searched = len(s.Raw)
			return nil, false
		}

		at, line := s.Line, s.Raw[s.Line:s.searched+end]
		s.searched += end + 1

		s.Line = s.searched
		if data, ok := s.take(line, at); ok {
			return data, true
		}
	}
}

// learn detects the line ending at the end of the first line: a CR needs the byte after it.
func (s *SSESplitter) learn() bool {
	end := lineEnd(s.Raw[s.searched:])
	if end < 0 {
		s.searched = len(s.Raw)
		return false
	}

	s.searched += end
	switch {
	case s.Raw[s.searched] == '\n':
		s.eol = '\n'
	case s.searched+1 == len(s.Raw):
		return false
	case s.Raw[s.searched+1] == '\n':
		s.eol = '\n'
	default:
		s.eol = '\r'
	}

	return true
}

// lineEnd returns the position of the first CR or LF; -1: none. A first line may have all of a prompt's
// ids, for which bytes.IndexAny is slow.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf >= 0 {
		b = b[:lf]
	}

	if cr := bytes.IndexByte(b, '\r'); cr >= 0 {
		return cr
	}

	return lf
}

// Rest returns the data of a last event without an empty line after it.
func (s *SSESplitter) Rest() ([]byte, bool) {
	at, line := s.Line, s.Raw[s.Line:]

	s.Line, s.searched = len(s.Raw), len(s.Raw)
	if data, ok := s.take(line, at); ok {
		return data, true
	}

	return s.flush()
}

// take reads the line at an offset. An empty line ends an event; its data lines are joined by line feeds.
func (s *SSESplitter) take(line []byte, at int) ([]byte, bool) {
	line = bytes.TrimSuffix(line, []byte("\r"))

	end := at + len(line)
	if at == 0 {
		line = bytes.TrimPrefix(line, []byte(bom))
	}

	if len(line) == 0 {
		return s.flush()
	}

	value, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		// a comment, or a field without data
		return nil, false
	}

	value = bytes.TrimPrefix(value, []byte(" "))

	switch s.lines++; s.lines {
	case 1:
		s.data, s.At = value, end-len(value)
	case 2:
		// a copy: raw must not change
		s.data = slices.Concat(s.data, []byte("\n"), value)
	default:
		s.data = append(append(s.data, '\n'), value...)
	}

	return nil, false
}

func (s *SSESplitter) flush() ([]byte, bool) {
	data := s.data
	if s.lines > 1 {
		s.At = -1
	}

	s.From, s.Began = s.Began, s.Line

	s.data, s.lines = nil, 0
	if string(data) == "[DONE]" {
		s.Done = true
	}

	return data, len(data) > 0 && !s.Done
}

// Reframe appends the latest event with other data, on one line; it keeps the event's other lines.
func (s *SSESplitter) Reframe(dst, data []byte) []byte {
	event := bytes.TrimPrefix(s.Raw[s.From:s.Line], []byte(bom))
	for written := false; len(event) > 0; {
		line := event
		if end := bytes.IndexByte(event, s.eol); end >= 0 {
			line = event[:end+1]
		}

		event = event[len(line):]
		switch {
		case !bytes.HasPrefix(line, []byte("data:")):
			dst = append(dst, line...)
		case !written:
			dst = append(
				append(append(dst, "data: "...), rawjson.Flat(data)...),
				line[len(bytes.TrimRight(line, "\r\n")):]...)
			written = true
		}
	}

	return dst
}
