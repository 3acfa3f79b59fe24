package trace

import (
	"encoding/json"
	"fmt"
	"os"
)

// load reads all segments into the logs' indexes.
func (s *Store) load() error {
	numbers, err := segmentNumbers(s.dir)
	if err != nil {
		return err
	}

	for i, n := range numbers {
		seg, err := openSegment(s.dir, n)
		if err != nil {
			return err
		}

		s.segments[n], s.last = seg, seg
		if err := s.loadSegment(seg, i == len(numbers)-1); err != nil {
			return err
		}
	}

	return nil
}

// loadSegment reads one segment, which is in memory as a whole meanwhile. It cuts off a torn tail of the
// last segment. An older one was synced completely, so a bad tail is damage, and is kept for inspection.
func (s *Store) loadSegment(seg *segment, last bool) error {
	raw, err := os.ReadFile(seg.file.Name())
	if err != nil {
		return fmt.Errorf("read trace: %w", err)
	}

	scan := scanner{raw: raw}
	for body, at, ok := scan.next(); ok; body, at, ok = scan.next() {
		if s.indexBody(seg, body, place{Segment: seg.number, At: at, size: frameHead + int64(len(body))}) != nil {
			s.damaged++
		}
	}

	s.end = scan.at

	s.damaged += scan.damaged
	switch torn := scan.at < int64(len(raw)); {
	case torn && last:
		return s.cut(seg)
	case torn:
		s.damaged++
	}

	return nil
}

func (s *Store) cut(seg *segment) error {
	if err := seg.file.Truncate(s.end); err != nil {
		return fmt.Errorf("cut torn tail of trace: %w", err)
	}

	if err := s.options.Sync(seg.file); err != nil {
		return fmt.Errorf("cut torn tail of trace: %w", err)
	}

	return nil
}

// note is the head of a frame about a turn: that the agent got its reply, or with the rows of its routed experts.
type note struct {
	Log  string `json:"log"`
	Turn int    `json:"turn"`
}

// indexBody indexes one body.
func (s *Store) indexBody(seg *segment, body []byte, at place) error {
	kind, head, sections, err := split(body)
	if err != nil {
		return err
	}

	if kind == typeDelivered || kind == typeExperts {
		return s.addNote(seg, kind, head, at)
	}

	h, err := decodeHead(head, sections)
	if err != nil {
		return err
	}

	l := s.log(h.Log)

	seg.live[h.Log] = true
	if h.Base != nil && !l.index.restores(h, at) {
		l.damaged++
		return nil
	}

	l.index.put(h, at)

	return nil
}

// addNote indexes a frame about a turn.
func (s *Store) addNote(seg *segment, kind byte, head []byte, at place) error {
	var n note
	if err := json.Unmarshal(head, &n); err != nil {
		return fmt.Errorf("decode record: %w", err)
	}

	l := s.log(n.Log)
	if seg.live[n.Log] = true; kind == typeExperts {
		l.index.putExperts(n.Turn, at)
	} else {
		l.index.deliver(n.Turn)
	}

	return nil
}
