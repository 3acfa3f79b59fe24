// Package intake reads requests into memory that all requests of a server share, so that many large ones at once cannot take more than
// there is.
package intake

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// small is what a request may hold without asking for shared memory, in bytes: most requests fit, and are never refused.
const small = 16 << 10

// ErrBusy says that other requests hold all of the shared memory, or those of the same client its part.
var ErrBusy = errors.New("the server is working on as many large requests as it can hold: try again")

// TooLargeError says that a request is larger than its bound.
type TooLargeError struct{ Max int64 }

func (e *TooLargeError) Error() string { return fmt.Sprintf("at most %d bytes are taken", e.Max) }

// Memory is the bytes that large requests share. It is safe for concurrent use.
type Memory struct {
	each int64 // bytes that one client may hold

	mu   sync.Mutex
	free int64            // bytes
	held map[string]int64 // bytes by client
}

// New makes a Memory of so many bytes. One client may hold half of them, so that requests which it sends slowly, or ahead of answers that
// take long, leave room for others.
func New(bytes int64) *Memory {
	return &Memory{each: bytes / 2, free: bytes, held: map[string]int64{}}
}

// Share is a Memory as one client has it.
type Share struct {
	m      *Memory
	client string
}

// Of is the share of a client, by its name. Clients without a name look alike, so each may hold everything.
func (m *Memory) Of(client string) Share { return Share{m, client} }

func (s Share) take(bytes int64) bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if bytes > s.m.free || s.client != "" && bytes > s.m.each-s.m.held[s.client] {
		return false
	}
	s.m.free -= bytes
	s.m.held[s.client] += bytes
	return true
}

func (s Share) give(bytes int64) {
	if bytes == 0 {
		return
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.free += bytes
	if s.m.held[s.client] -= bytes; s.m.held[s.client] == 0 {
		delete(s.m.held, s.client)
	}
}

// Read reads r to its end. It takes shared memory as the bytes come, so that a slow sender holds only what it has sent, and never waits
// for it. The caller must call release, once or more often, when it needs the bytes no longer; after an error there is nothing to release.
// The error is a TooLargeError, ErrBusy, or the reader's own.
func (s Share) Read(r io.Reader, most int64) (data []byte, release func(), err error) {
	taken := int64(0)
	defer func() {
		if err != nil {
			s.give(taken)
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
			return data, sync.OnceFunc(func() { s.give(taken) }), nil
		case err != nil:
			return nil, nil, err
		case len(data) < cap(data):
			continue
		}
		size := min(2*int64(cap(data)), most+1)
		if more := size - max(int64(cap(data)), small); more > 0 {
			if !s.take(more) {
				return nil, nil, ErrBusy
			}
			taken += more
		}
		data = append(make([]byte, 0, size), data...)
	}
}
