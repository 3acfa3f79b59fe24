package trace

import "bytes"

// scanner walks the frames of a segment.
type scanner struct {
	raw []byte

	// where the next frame begins; after the last one, where the tail is torn
	at int64

	// places that cannot be read though a frame comes behind them
	damaged int
}

// next returns the next frame's body and where the frame begins; false at the end, or where the tail is
// torn. What cannot be read and has a good frame behind it is no tear: it is counted and stepped over.
func (s *scanner) next() (body []byte, at int64, ok bool) {
	body, err := openFrame(s.raw[s.at:])
	if err == nil {
		at, s.at = s.at, s.at+frameHead+int64(len(body))
		return body, at, true
	}

	for from := s.at + 1; from < int64(len(s.raw)); from++ {
		skip := bytes.Index(s.raw[from:], []byte(frameMark))
		if skip < 0 {
			break
		}

		from += int64(skip)
		if body, err = openFrame(s.raw[from:]); err == nil {
			s.damaged++
			s.at = from + frameHead + int64(len(body))

			return body, from, true
		}
	}

	return nil, 0, false
}
