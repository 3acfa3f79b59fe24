package trace

import (
	"errors"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/durable"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// write puts a frame of a log at the end of the store and returns its number for the committer. What a
// failed write left is cut off again, so that a segment never has a hole.
func (s *Store) write(l *Log, f frame, note func(place)) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	switch {
	case s.broken != nil:
		return 0, s.broken
	case l.dropped:
		return 0, fault.New(fault.Internal, "trace was dropped")
	}

	if err := s.roll(); err != nil {
		return 0, fault.Wrap(fault.Internal, err, "write trace")
	}

	if err := s.options.Write(s.last.file, f, s.end); err != nil {
		if cut := s.last.file.Truncate(s.end); cut != nil {
			s.broken = fault.Wrap(fault.Internal, errors.Join(err, cut), "trace is broken")
		}

		return 0, fault.Wrap(fault.Internal, err, "write trace")
	}

	note(place{Segment: s.last.number, At: s.end, size: f.size()})
	s.last.live[l.key] = true
	s.end += f.size()

	return s.commit.wrote(), nil
}

// roll begins the next segment when the last one is full, and the first when there is none. The full one is
// synced before anything goes to the next: so only the last can have a torn tail, and a sync of the last is
// one of all. s.mu is held.
func (s *Store) roll() error {
	number := 1

	if s.last != nil {
		if s.end < s.options.SegmentSize {
			return nil
		}

		if err := s.options.Sync(s.last.file); err != nil {
			return s.commit.fail(err)
		}

		number = s.last.number + 1
	}

	next, err := openSegment(s.dir, number)
	if err != nil {
		return err
	}

	if err := durable.SyncFolder(s.dir); err != nil {
		return errors.Join(fmt.Errorf("open trace: %w", err), next.file.Close())
	}

	s.segments[number], s.last, s.end = next, next, 0

	return nil
}

// syncLast syncs the segment that is written to; those before it are synced already.
func (s *Store) syncLast() error {
	s.files.RLock()
	defer s.files.RUnlock()

	s.mu.Lock()
	file := s.last.file
	s.mu.Unlock()

	return s.options.Sync(file)
}
