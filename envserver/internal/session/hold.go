package session

import "context"

// Close ends a session at the request of an HTTP caller. If a WebSocket is attached, the session ends when
// the WebSocket releases it, and closing is true. A caller cannot close a session that a WebSocket owns.
func (t *Set) Close(ctx context.Context, owner, id string) (closing bool, err error) {
	if _, err := t.find(ctx, owner, id, false); err != nil {
		return false, err
	}

	// another replica may have the latest state
	if err := t.refresh(ctx, owner, id); err != nil {
		return false, err
	}

	t.mu.Lock()

	e := t.m[place{owner, id}]
	switch {
	case e == nil:
		err = &UnknownError{id}
	case e.owned:
		err = &HeldError{ID: id, Owned: true}
	case e.released != nil:
		e.closing, closing = true, true
	default:
		t.remove(e)
	}
	t.mu.Unlock()

	if err == nil {
		e.s.Leave()
	}

	if err == nil && !closing {
		t.claim(ctx, e.s)
		t.closeSession(e, ErrClosed)
		err = e.s.forget(ctx)
	}

	return closing, err
}

// Attach gives a session, made over HTTP or stored, to a WebSocket, which must Release it. While another
// WebSocket has the session, Attach waits until ctx ends: a client may reconnect before its old connection
// is known to be gone.
func (t *Set) Attach(ctx context.Context, owner, id string) (*Session, error) {
	s, err := t.attach(ctx, owner, id)
	if err == nil {
		t.claim(ctx, s)
	}

	return s, err
}

func (t *Set) attach(ctx context.Context, owner, id string) (*Session, error) {
	for {
		restored, err := t.find(ctx, owner, id, true)
		if err != nil || restored != nil {
			return restored, err
		}

		if err := t.refresh(ctx, owner, id); err != nil {
			return nil, err
		}

		s, held, err := t.tryAttach(owner, id)
		if held == nil {
			return s, err
		}

		select {
		case <-held:
		case <-ctx.Done():
			return nil, &HeldError{ID: id}
		}
	}
}

// tryAttach attaches to the session if it is free; otherwise it returns a channel that closes when it may be free.
func (t *Set) tryAttach(owner, id string) (*Session, <-chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()

	e := t.m[place{owner, id}]
	switch {
	case e == nil:
		return nil, nil, &UnknownError{id}
	case e.released != nil:
		return nil, e.released, nil
	}

	e.released = make(chan struct{})

	return e.s, nil, nil
}

// Release ends a WebSocket's use: its own session ends with cause, an attached one is free for HTTP again.
func (t *Set) Release(s *Session, cause error) {
	t.mu.Lock()

	e := t.m[s.place()]
	if e == nil {
		t.mu.Unlock()
		return
	}

	if e.released != nil {
		close(e.released)
		e.released = nil
		t.rearm(e)
	}

	ends := (e.owned || e.closing) && t.remove(e)
	t.mu.Unlock()

	if ends {
		t.closeSession(e, cause)
	}
}
