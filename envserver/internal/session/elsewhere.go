package session

import (
	"cmp"
	"context"
	"time"
)

// claim tells the other replicas that the client uses the session here, so that none of them ends its rollouts
// with an older copy. It writes only after another replica's use, and once in half of the idle time.
func (t *Set) claim(ctx context.Context, s *Session) {
	if !s.due(cmp.Or(t.o.Idle/2, nameAgain)) {
		return
	}

	// after a failure the next use tries again
	_ = s.Save(ctx)
}

// due makes the next Save write a session that has rollouts to end, if the last one was long ago.
func (s *Session) due(every time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	due := s.keeper != nil && len(s.watched) > 0 && time.Since(s.savedAt) > every
	s.dirty = s.dirty || due

	return due
}

// Settle takes the stored state if another replica has continued the session: that of this copy, which is older,
// must not overwrite it.
func (s *Session) Settle(ctx context.Context) {
	s.keeping.Lock()
	defer s.keeping.Unlock()

	s.mu.Lock()
	settled := !s.stored || !s.dirty && len(s.watched) == 0
	s.mu.Unlock()

	if settled {
		return
	}

	r, err := load(context.WithoutCancel(ctx), s.keeper, s.Owner, s.ID)

	s.mu.Lock()
	defer s.mu.Unlock()
	// without an answer of the store the present state holds
	if err == nil && r.Version > s.version {
		s.follow(r)
	}
}

// Abandoned returns the rollouts that end with the session, now that it has ended in this process: none if the
// client continues it on another replica.
func (s *Session) Abandoned(ctx context.Context) []string {
	s.Settle(ctx)

	s.mu.Lock()
	elsewhere := s.stored && s.savedAt.IsZero()
	s.mu.Unlock()

	if elsewhere {
		return nil
	}

	return s.Watched()
}
