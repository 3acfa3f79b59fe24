package web

import (
	"context"
	"sync"

	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// Desks are the desks of all sessions that have one. The zero value has none.
type Desks struct {
	mu sync.Mutex
	m  map[string]*Desk
}

// Of returns the desk of a session. It is made at its first use, and goes when the session ends.
func (d *Desks) Of(s *session.Session) *Desk {
	d.mu.Lock()
	defer d.mu.Unlock()
	if desk := d.m[s.ID]; desk != nil {
		return desk
	}
	if d.m == nil {
		d.m = map[string]*Desk{}
	}
	desk := newDesk()
	d.m[s.ID] = desk
	life, release := s.Bind(context.Background())
	context.AfterFunc(life, func() {
		release()
		d.clear(s.ID, desk)
	})
	return desk
}

// Len is how many desks there are.
func (d *Desks) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.m)
}

func (d *Desks) clear(id string, desk *Desk) {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(desk.cleared)
	if d.m[id] == desk {
		delete(d.m, id)
	}
}
