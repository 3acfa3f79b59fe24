package sse

import (
	"bytes"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Splitter cuts server-sent events out of raw, which may grow while it does. Lines end as the first one does: in LF or CRLF, or
// in CR alone.
type Splitter struct {
	Raw   []byte
	eol   byte   // the last byte of each line's end; 0: no line has ended yet
	Line  int    // where the line that is not whole yet begins
	seen  int    // how far a line end was looked for
	Began int    // where the event that is not whole yet begins
	From  int    // where the event that came last begins; it ends where line is
	data  []byte // of the event that is not whole yet
	lines int    // of data
	At    int    // where data begins in raw; -1 for an event of several lines, which are joined
	Done  bool   // the stream's own end mark came; what follows does not count
}

// bom may stand at the beginning of a stream, and says nothing.
const bom = "\ufeff"

// Next returns the data of the next whole event.
func (s *Splitter) Next() ([]byte, bool) {
	if s.eol == 0 && !s.learn() {
		return nil, false
	}
	for {
		end := bytes.IndexByte(s.Raw[s.seen:], s.eol)
		if end < 0 {
			s.seen = len(s.Raw)
			return nil, false
		}
		at, line := s.Line, s.Raw[s.Line:s.seen+end]
		s.seen += end + 1
		s.Line = s.seen
		if data, ok := s.take(line, at); ok {
			return data, true
		}
	}
}

// learn finds how lines end, once the first one has: a CR needs the byte behind it.
func (s *Splitter) learn() bool {
	end := lineEnd(s.Raw[s.seen:])
	if end < 0 {
		s.seen = len(s.Raw)
		return false
	}
	s.seen += end
	switch {
	case s.Raw[s.seen] == '\n':
		s.eol = '\n'
	case s.seen+1 == len(s.Raw):
		return false
	case s.Raw[s.seen+1] == '\n':
		s.eol = '\n'
	default:
		s.eol = '\r'
	}
	return true
}

// lineEnd is where the first CR or LF is; -1: nowhere. A first line may have all of a prompt's ids, for which bytes.IndexAny is slow.
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

// Rest returns the data of a last event that no empty line ends.
func (s *Splitter) Rest() ([]byte, bool) {
	at, line := s.Line, s.Raw[s.Line:]
	s.Line, s.seen = len(s.Raw), len(s.Raw)
	if data, ok := s.take(line, at); ok {
		return data, true
	}
	return s.flush()
}

// take reads the line that begins at an offset. An event ends at an empty line; its data lines are joined by line ends.
func (s *Splitter) take(line []byte, at int) ([]byte, bool) {
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
		return nil, false // a comment, or a field that carries no data
	}
	value = bytes.TrimPrefix(value, []byte(" "))
	switch s.lines++; s.lines {
	case 1:
		s.data, s.At = value, end-len(value)
	case 2:
		s.data = slices.Concat(s.data, []byte("\n"), value) // never into raw
	default:
		s.data = append(append(s.data, '\n'), value...)
	}
	return nil, false
}

func (s *Splitter) flush() ([]byte, bool) {
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

// Reframe appends the event that came last with other data, on one line; its lines that are not of data stay.
func (s *Splitter) Reframe(dst, data []byte) []byte {
	event := bytes.TrimPrefix(s.Raw[s.From:s.Line], []byte(bom))
	for said := false; len(event) > 0; {
		line := event
		if end := bytes.IndexByte(event, s.eol); end >= 0 {
			line = event[:end+1]
		}
		event = event[len(line):]
		switch {
		case !bytes.HasPrefix(line, []byte("data:")):
			dst = append(dst, line...)
		case !said:
			dst = append(append(append(dst, "data: "...), rawjson.Flat(data)...), line[len(bytes.TrimRight(line, "\r\n")):]...)
			said = true
		}
	}
	return dst
}
