package upstream

import (
	"sync"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Live is the part of a reply that may be passed on while the rest is still arriving. A nil Live is empty
// and ignores input.
type Live struct {
	view render.View

	// removed, as from the whole reply
	key string

	mu sync.Mutex

	// as the agent sees them; only grows
	bytes []byte

	// closed and replaced when bytes grows
	grown chan struct{}

	// bytes of the reply that were processed; used by the reader only
	read int
}

// NewLive returns the view of a reply that is forwarded while it arrives.
func NewLive(view render.View, key string) *Live {
	return &Live{view: view, key: key, grown: make(chan struct{})}
}

// reset resets l for the reply of another try. It is called only while the agent has seen nothing of the previous one.
func (l *Live) reset() {
	if l != nil {
		l.read = 0
	}
}

// follow adds the complete events that have arrived, except for the end of the reply. The end is held back
// until the reply is recorded; an agent does not take a reply without an end for complete. So are tool
// calls, which may have to be rewritten.
func (l *Live) follow(s *reply.Stream) {
	if l == nil || s.FinishReason != "" || s.Error != nil || s.Done() || rawjson.IsObject(s.Raw()) {
		return
	}

	end := s.Passable()
	if end <= l.read {
		return
	}

	events := s.Raw()[l.read:end]
	l.read += len(events)

	piece := l.view.Of(cleanBytes(events, l.key))
	if s.Odd {
		piece = rawjson.Finite(piece)
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	l.bytes = append(l.bytes, piece...)
	close(l.grown)
	l.grown = make(chan struct{})
}

// From returns the bytes after the first n, and a channel that is closed when there are more.
func (l *Live) From(n int) ([]byte, <-chan struct{}) {
	if l == nil {
		return nil, nil
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	return l.bytes[n:len(l.bytes):len(l.bytes)], l.grown
}

// HasSent reports whether the agent may have seen part of the reply.
func (l *Live) HasSent() bool {
	seen, _ := l.From(0)
	return len(seen) > 0
}
