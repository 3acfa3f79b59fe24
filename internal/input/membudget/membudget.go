// Package membudget bounds the memory of input from outside: requests of clients, replies of model
// endpoints. All concurrent reads of a process share one Memory.
package membudget

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"
)

// ErrBusy means that the shared memory is used up, or the part of it for one name or one member of a name.
var ErrBusy = errors.New("the server is working on as many large requests as it can hold: try again")

// TooLargeError means that a request exceeds its bound.
type TooLargeError struct{ Max int64 }

func (e *TooLargeError) Error() string { return fmt.Sprintf("at most %d bytes are taken", e.Max) }

// Memory is the bytes that large requests or replies share. It is safe for concurrent use.
type Memory struct {
	// bytes that each may hold without asking: most fit, and are never refused
	small int64

	// bytes that those of one name may hold
	each int64

	mu sync.Mutex

	// bytes
	free int64

	// bytes by name
	usedBytes map[string]int64

	// bytes by member of a name
	members map[member]int64
}

// member is one of several that share under one name.
type member struct{ name, id string }

// New makes a Memory of so many bytes; each request or reply may hold small bytes beside it. Those of one
// name may hold half of it, so that what comes slowly, or waits for a slow reader, leaves room for others.
func New(bytes, small int64) *Memory {
	return &Memory{
		small:     small,
		each:      bytes / 2,
		free:      bytes,
		usedBytes: map[string]int64{},
		members:   map[member]int64{},
	}
}

// Share is a Memory as those of one name have it.
type Share struct {
	m    *Memory
	name string

	// id of the member; "": all of that name are one
	id string

	// what a byte counts for
	weight int64
}

// Of is the share of a client or an endpoint, by its name. Those without a name look alike, so each may
// hold everything.
func (m *Memory) Of(name string) Share { return Share{m: m, name: name, weight: 1} }

// Member is the share as one of several of its name has it, such as a rollout of an endpoint. A member
// holds at most as much as it leaves free: one that gives nothing back leaves half to the others, two leave
// a quarter, and so on: no number of them takes everything. A member with one Part alone need leave an
// eighth of the share only, so that a very large reply fits.
func (s Share) Member(id string) Share {
	s.id = id
	return s
}

// reserve is the part of a name's share that a member with one Part leaves to the others: 1/8.
const reserve = 8

// low is the part of a name's share that is left when newcomers should wait: 1/4. Large ones find no room
// before all is held.
const low = 4

// Low reports whether little memory is free for the share's name.
func (s Share) Low() bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()

	return s.room() < s.m.each/low
}

// room returns the free memory for the share's name, in bytes. The memory's lock is held.
func (s Share) room() int64 {
	if s.name == "" {
		return s.m.free
	}

	return min(s.m.free, s.m.each-s.m.usedBytes[s.name])
}

// Weighing returns the share with each byte counted n times, for input that grows when it is decoded.
func (s Share) Weighing(n int64) Share {
	s.weight = n
	return s
}

// reserve takes bytes more for a Part that has taken so many already.
func (s Share) reserve(bytes, taken int64) bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()

	left := s.room() - bytes
	if left < 0 || s.id != "" && !s.leavesEnough(left, bytes, taken) {
		return false
	}

	s.m.free -= bytes

	s.m.usedBytes[s.name] += bytes
	if s.id != "" {
		s.m.members[s.member()] += bytes
	}

	return true
}

// leavesEnough reports whether a member leaves enough to the others if its Part takes that many more bytes.
// The memory's lock is held.
func (s Share) leavesEnough(left, bytes, taken int64) bool {
	held := s.m.members[s.member()]
	return held+bytes <= left || held == taken && left >= s.m.each/reserve
}

func (s Share) member() member { return member{s.name, s.id} }

func (s Share) give(bytes int64) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()

	s.m.free += bytes
	if s.m.usedBytes[s.name] -= bytes; s.m.usedBytes[s.name] == 0 {
		delete(s.m.usedBytes, s.name)
	}

	if s.id == "" {
		return
	}

	if s.m.members[s.member()] -= bytes; s.m.members[s.member()] == 0 {
		delete(s.m.members, s.member())
	}
}

// Used is the shared memory that is held at the moment, in bytes.
func (m *Memory) Used() (bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()

	for _, n := range m.usedBytes {
		bytes += n
	}

	return bytes
}

// Read reads r to its end. It takes shared memory as the bytes come, so that a slow sender holds only what
// it has sent, and never waits for it. The caller must call release, once or more often, when it needs the
// bytes no longer; after an error there is nothing to release. The error is a TooLargeError, ErrBusy, or
// the reader's own.
func (s Share) Read(r io.Reader, most int64) (data []byte, release func(), err error) {
	// none for what is small, as most is
	var part *Part

	defer func() {
		if err != nil {
			part.Release()
		}
	}()

	data = make([]byte, 0, 512)
	for {
		n, err := r.Read(data[len(data):cap(data)])

		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > most:
			return nil, nil, &TooLargeError{most}
		case errors.Is(err, io.EOF):
			return data, part.Release, nil
		case err != nil:
			return nil, nil, err
		case len(data) < cap(data):
			continue
		}

		size := min(2*int64(cap(data)), most+1)
		if size*s.weight > s.m.small {
			part = cmp.Or(part, s.Part())
			if err := part.Resize(size); err != nil {
				return nil, nil, err
			}
		}

		data = append(make([]byte, 0, size), data...)
	}
}
