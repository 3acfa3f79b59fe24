package upstream

import (
	"sync"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Live is what of a reply may be handed on while the rest is still coming. A nil one takes nothing in and holds nothing.
type Live struct {
	view render.View
	key  string // taken out, as from the whole reply

	mu    sync.Mutex
	bytes []byte        // as the agent sees them; grows only
	grown chan struct{} // closed when they do, and replaced

	read int // how much of the reply they come from; the reader's alone
}

// NewLive returns the view of a reply that is forwarded while it arrives.
func NewLive(view render.View, key string) *Live {
	return &Live{view: view, key: key, grown: make(chan struct{})}
}

// again begins with another try's reply; there is one only when the agent has seen nothing of the one before.
func (l *Live) again() {
	if l != nil {
		l.read = 0
	}
}

// follow takes in the whole events that have come, up to where the reply ends: the end is kept back until it is on record, and
// an agent does not take a reply without one for whole.
func (l *Live) follow(s *reply.Stream) {
	if l == nil || s.FinishReason != "" || s.Error != nil || s.Done() || rawjson.IsObject(s.Raw()) {
		return
	}
	events := s.Raw()[l.read:s.Whole()]
	if len(events) == 0 {
		return
	}
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

// From is what there is beyond the first n bytes, and a channel that is closed when there is more.
func (l *Live) From(n int) ([]byte, <-chan struct{}) {
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes[n:len(l.bytes):len(l.bytes)], l.grown
}

// Begun says whether the agent may have seen something of the reply.
func (l *Live) Begun() bool {
	seen, _ := l.From(0)
	return len(seen) > 0
}
