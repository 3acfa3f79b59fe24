package trace

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Store is the commit log of a gateway: the records of all its routes. It is safe for concurrent use.
type Store struct {
	dir     string
	options Options
	commit  *committer

	// seed of the hashes by which sections are compared
	seed maphash.Seed

	// files is held shared while a segment is synced or read, and alone while one is removed.
	files sync.RWMutex

	mu sync.Mutex

	// by key
	logs     map[string]*Log
	segments map[int]*segment

	// the segment that is written to
	last *segment

	// end of last, where the next frame goes
	end     int64
	damaged int

	// a write that failed and could not be undone
	broken error
}

// Options of a store; the zero value is what production uses.
type Options struct {
	// Sync makes what was written to the file durable; nil: fdatasync, or what the system has for it.
	Sync func(*os.File) error
	// Write writes the parts one after the other at an offset; nil: as the system does it best.
	Write func(f *os.File, parts [][]byte, at int64) error
	// SegmentSize is where a segment is full, in bytes; 0: 64 MiB.
	SegmentSize int64
}

func (o Options) withDefaults() Options {
	if o.Sync == nil {
		o.Sync = syncData
	}

	if o.Write == nil {
		o.Write = writeAt
	}

	if o.SegmentSize <= 0 {
		o.SegmentSize = segmentSize
	}

	return o
}

// Open opens the store in the folder dir, making it (mode 0700) when there is none, and cuts a torn tail off.
func Open(dir string, o Options) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}

	s := &Store{
		dir:      dir,
		options:  o.withDefaults(),
		seed:     maphash.MakeSeed(),
		logs:     map[string]*Log{},
		segments: map[int]*segment{},
	}

	s.commit = &committer{sync: s.syncLast}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.Close())
	}

	return s, nil
}

// Log is the log of that key, which is new when the store holds none. A key is one route's life: who opens
// a route again under the same name takes a new one.
func (s *Store) Log(key string) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.log(key)
}

// log is Log; s.mu is held.
func (s *Store) log(key string) *Log {
	l, ok := s.logs[key]
	if !ok {
		l = &Log{store: s, key: key}
		s.logs[key] = l
	}

	return l
}

// Retain drops every log whose key is not to be kept.
func (s *Store) Retain(keep func(key string) bool) error {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.logs))
	s.mu.Unlock()

	return s.forgetLogs(slices.DeleteFunc(keys, keep)...)
}

// forgetLogs forgets logs, and removes the segments that only they had records in.
func (s *Store) forgetLogs(keys ...string) error {
	s.files.Lock()
	defer s.files.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()

	for _, key := range keys {
		if l, ok := s.logs[key]; ok {
			l.dropped = true

			delete(s.logs, key)
		}

		for _, seg := range s.segments {
			delete(seg.live, key)
		}
	}

	var errs []error

	for n, seg := range s.segments {
		if len(seg.live) == 0 && seg != s.last {
			delete(s.segments, n)

			errs = append(errs, seg.retire())
		}
	}

	return errors.Join(errs...)
}

// Damaged counts frames that could not be read though what follows them could, and those written as the difference to
// one that is missing: a failing disk, not a crash. Of a log that was dropped, older segments may have been removed, so
// the difference is counted until Drop or Retain drops its log again.
func (s *Store) Damaged() int {
	s.mu.Lock()
	defer s.mu.Unlock()

	n := s.damaged
	for _, l := range s.logs {
		n += l.damaged
	}

	return n
}

// Broken says why no record can be kept any more, until the store is opened anew; nil: they can.
func (s *Store) Broken() error {
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()

	return cmp.Or(broken, s.commit.broken())
}

// Close closes the files. Closing twice is harmless.
func (s *Store) Close() error {
	s.files.Lock()
	defer s.files.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()

	var errs []error

	for _, seg := range s.segments {
		if err := seg.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			errs = append(errs, fmt.Errorf("close trace: %w", err))
		}
	}

	s.broken = fault.New(fault.Internal, "trace is closed")

	return errors.Join(errs...)
}
