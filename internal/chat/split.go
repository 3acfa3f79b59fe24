package chat

import (
	"bytes"
	"slices"
)

// splitter cuts server-sent events out of raw, which may grow while it does.
type splitter struct {
	raw   []byte
	line  int    // where the line that is not whole yet begins
	seen  int    // how far a line end was looked for
	data  []byte // of the event that is not whole yet
	lines int    // of data
	at    int    // where data begins in raw; -1 for an event of several lines, which are joined
	done  bool   // the stream's own end mark came; what follows does not count
}

// next returns the data of the next whole event.
func (s *splitter) next() ([]byte, bool) {
	for {
		end := bytes.IndexByte(s.raw[s.seen:], '\n')
		if end < 0 {
			s.seen = len(s.raw)
			return nil, false
		}
		at, line := s.line, s.raw[s.line:s.seen+end]
		s.seen += end + 1
		s.line = s.seen
		if data, ok := s.take(line, at); ok {
			return data, true
		}
	}
}

// rest returns the data of a last event that no empty line ends.
func (s *splitter) rest() ([]byte, bool) {
	at, line := s.line, s.raw[s.line:]
	s.line, s.seen = len(s.raw), len(s.raw)
	if data, ok := s.take(line, at); ok {
		return data, true
	}
	return s.flush()
}

// take reads the line that begins at an offset. An event ends at an empty line; its data lines are joined by line ends.
func (s *splitter) take(line []byte, at int) ([]byte, bool) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		return s.flush()
	}
	value, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return nil, false // a comment, or a field that carries no data
	}
	value = bytes.TrimPrefix(value, []byte(" "))
	if s.lines++; s.lines > 1 {
		s.data = append(append(slices.Clip(s.data), '\n'), value...)
	} else {
		s.data, s.at = value, at+len(line)-len(value)
	}
	return nil, false
}

func (s *splitter) flush() ([]byte, bool) {
	data := s.data
	if s.lines > 1 {
		s.at = -1
	}
	s.data, s.lines = nil, 0
	if string(data) == "[DONE]" {
		s.done = true
	}
	return data, len(data) > 0 && !s.done
}
