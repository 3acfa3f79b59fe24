package trace

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
)

// scanner walks the frames of a file.
type scanner struct {
	r       io.ReaderAt
	size    int64
	at      int64 // where the next frame begins
	damaged int   // frames that are in their place and unreadable
}

// next returns the next frame's body and where the frame begins; io.EOF at the end, or where the tail is torn: there at
// says where to cut. A bad frame with a good one after it is no tear: it is counted and stepped over.
func (s *scanner) next() (body []byte, at int64, err error) {
	for {
		body, end, err := s.frame(s.at)
		if err == nil {
			at, s.at = s.at, end
			return body, at, nil
		}
		if err != errDamaged {
			return nil, s.at, err
		}
		if end == 0 {
			return nil, s.at, io.EOF
		}
		if _, _, err := s.frame(end); err != nil {
			return nil, s.at, io.EOF
		}
		s.damaged++
		s.at = end
	}
}

// frame reads the frame at an offset. With errDamaged, end is where it would have ended, or 0 where that is beyond the
// file.
func (s *scanner) frame(at int64) (body []byte, end int64, err error) {
	if s.size-at < frameHead {
		return nil, 0, errDamaged
	}
	var head [frameHead]byte
	if _, err := s.r.ReadAt(head[:], at); err != nil {
		return nil, 0, fmt.Errorf("read trace: %w", err)
	}
	n, sum, ok := bodyLength(head[:], s.size-at-frameHead)
	if !ok {
		return nil, 0, errDamaged
	}
	body, end = make([]byte, n), at+frameHead+n
	if _, err := s.r.ReadAt(body, at+frameHead); err != nil {
		return nil, 0, fmt.Errorf("read trace: %w", err)
	}
	if crc32.Checksum(body, castagnoli()) != sum {
		return nil, end, errDamaged
	}
	return body, end, nil
}

// delivered is the head of the tiny frame that says that the agent got a reply.
type delivered struct {
	Turn int `json:"turn"`
}

// load fills the index from the file.
func (s *scanner) load(ix *index) error {
	for {
		body, at, err := s.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ix.add(body, at); err != nil {
			s.damaged++
		}
	}
}

// add takes in one body.
func (ix *index) add(body []byte, at int64) error {
	kind, head, sections, err := split(body)
	if err != nil {
		return err
	}
	if kind == typeDelivered {
		var d delivered
		if err := json.Unmarshal(head, &d); err != nil {
			return fmt.Errorf("decode record: %w", err)
		}
		ix.deliver(d.Turn)
		return nil
	}
	h, err := decodeHead(head, sections)
	if err != nil {
		return err
	}
	ix.put(&h.Head, at, int64(len(body)))
	return nil
}
