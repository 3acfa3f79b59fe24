package session_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// replica is one process of several with one keeper.
type replica struct {
	*session.Set

	mu sync.Mutex

	// rollouts that ended with sessions
	ended []string
}

func newReplica(k session.Keeper) *replica {
	r := &replica{}
	r.Set = session.NewSet(session.Options{
		Max:    4,
		Idle:   time.Hour,
		Keeper: k,
		Ended: func(s *session.Session, _ error) {
			ended := s.Abandoned(context.Background())

			r.mu.Lock()
			defer r.mu.Unlock()

			r.ended = append(r.ended, ended...)
		},
	})

	return r
}

// abandoned are the rollouts that ended with sessions.
func (r *replica) abandoned() []string {
	synctest.Wait()

	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Clone(r.ended)
}

// use makes one call in a session.
func (r *replica) use(t *testing.T, id string, call func(*session.Session)) {
	t.Helper()

	s, done, err := r.Use(t.Context(), "", id)
	require.NoError(t, err)
	call(s)
	require.NoError(t, s.Save(t.Context()))
	done()
}

// disconnect ends a WebSocket's use of a session.
func (r *replica) disconnect(t *testing.T, s *session.Session) {
	t.Helper()

	s.Settle(t.Context())
	require.NoError(t, s.Save(t.Context()))
	r.Release(s, session.ErrClosed)
}

// The rollouts of a session end with its last copy, not with one on a replica that the client has left.
func TestRolloutsEndWithTheLastCopyOfTheirSession(t *testing.T) {
	t.Parallel()

	read := func(*session.Session) {}

	for name, c := range map[string]struct {
		// made by a WebSocket of replica a
		owned bool

		// continues the session of a on b, ends the copy of a, and returns what ends that of b
		leave func(t *testing.T, a, b *replica, s *session.Session) (end func())
		want  []string
	}{
		"idle here and changed elsewhere": {
			leave: func(t *testing.T, _, b *replica, s *session.Session) func() {
				time.Sleep(50 * time.Minute)
				b.use(t, s.ID, (*session.Session).Stepped)
				time.Sleep(20 * time.Minute)

				return func() { time.Sleep(time.Hour) }
			},
			want: []string{"r"},
		},
		"idle here and read elsewhere": {
			leave: func(t *testing.T, _, b *replica, s *session.Session) func() {
				for range 4 {
					time.Sleep(20 * time.Minute)
					b.use(t, s.ID, read)
				}

				return func() { time.Sleep(2 * time.Hour) }
			},
			want: []string{"r"},
		},
		"a WebSocket elsewhere": {
			owned: true,
			leave: func(t *testing.T, a, b *replica, s *session.Session) func() {
				// which a did not save yet
				s.Stepped()

				next, err := b.Attach(t.Context(), "", s.ID)
				require.NoError(t, err)
				a.disconnect(t, s)

				return func() { b.disconnect(t, next) }
			},
			want: []string{"r"},
		},
		"another session elsewhere": {
			owned: true,
			leave: func(t *testing.T, a, b *replica, s *session.Session) func() {
				next, err := b.Open("", true)
				require.NoError(t, err)
				require.NoError(t, b.Rejoin(t.Context(), next, s.State().EpisodeID))
				a.disconnect(t, s)

				return func() { b.disconnect(t, next) }
			},
			want: []string{"r"},
		},
		"closed elsewhere by the older copy": {
			leave: func(t *testing.T, a, b *replica, s *session.Session) func() {
				b.use(t, s.ID, read)
				a.use(t, s.ID, func(s *session.Session) { s.Watch("r2") })

				return func() {
					_, err := b.Close(t.Context(), "", s.ID)
					require.NoError(t, err)
				}
			},
			want: []string{"r", "r2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := &memoryKeeper{m: map[string][]byte{}}
				a, b := newReplica(k), newReplica(k)

				s, err := a.Open("", c.owned)
				require.NoError(t, err)
				s.Watch("r")
				require.NoError(t, s.Save(t.Context()))

				end := c.leave(t, a, b, s)

				require.Empty(t, a.abandoned())
				require.Empty(t, b.abandoned())

				end()
				require.Equal(t, c.want, b.abandoned())
			})
		})
	}
}
