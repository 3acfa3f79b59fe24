package web

import (
	"context"
	"sync"

	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// Views are the views of all sessions that have one. The zero value is empty.
type Views struct {
	mu sync.Mutex
	m  map[string]*View
}

// Of returns the view of a session. It creates the view at its first use and removes it when the session ends.
func (d *Views) Of(s *session.Session) *View {
	d.mu.Lock()
	defer d.mu.Unlock()

	if view := d.m[s.ID]; view != nil {
		return view
	}

	if d.m == nil {
		d.m = map[string]*View{}
	}

	view := newView()
	d.m[s.ID] = view
	life, release := s.Bind(context.Background())
	context.AfterFunc(life, func() {
		release()
		d.clear(s.ID, view)
	})

	return view
}

// Len returns the number of views.
func (d *Views) Len() int {
	d.mu.Lock()
	defer d.mu.Unlock()

	return len(d.m)
}

func (d *Views) clear(id string, view *View) {
	d.mu.Lock()
	defer d.mu.Unlock()

	close(view.cleared)

	if d.m[id] == view {
		delete(d.m, id)
	}
}
