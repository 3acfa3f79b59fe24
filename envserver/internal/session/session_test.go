package session_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// endedSessions records the causes of ended sessions.
type endedSessions struct {
	mu     sync.Mutex
	causes map[string]error
}

func newSet(o session.Options) (*session.Set, *endedSessions) {
	e := &endedSessions{causes: map[string]error{}}
	o.Ended = func(s *session.Session, cause error) {
		e.mu.Lock()
		defer e.mu.Unlock()

		e.causes[s.ID] = cause
	}

	return session.NewSet(o), e
}

func TestEachUseRestartsTheIdleTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, ended := newSet(session.Options{Max: 1, Idle: time.Minute})
		s, err := set.Open("", false)
		require.NoError(t, err)

		for range 3 {
			time.Sleep(59 * time.Second)

			_, done, err := set.Use(t.Context(), "", s.ID)
			require.NoError(t, err)
			done()
		}

		time.Sleep(61 * time.Second)
		synctest.Wait()
		require.Zero(t, set.Len())
		require.ErrorIs(t, ended.causes[s.ID], session.ErrClosed)
		_, _, err = set.Use(t.Context(), "", s.ID)
		require.ErrorContains(t, err, "Unknown session_id")
	})
}

func TestUseAndAttachmentKeepASessionAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, _ := newSet(session.Options{Max: 3, Idle: time.Minute})
		used, _ := set.Open("", false)
		attached, _ := set.Open("", false)
		owned, _ := set.Open("", true)
		_, done, err := set.Use(t.Context(), "", used.ID)
		require.NoError(t, err)
		_, err = set.Attach(t.Context(), "", attached.ID)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 3, set.Len())
		done()
		set.Release(attached, errors.New("socket gone"))
		time.Sleep(61 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, set.Len(), "a WebSocket's own session never idles out")
		set.Release(owned, errors.New("socket gone"))
		require.Zero(t, set.Len())
	})
}

func TestAttachWaitsForTheHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set, _ := newSet(session.Options{Max: 1})
		s, _ := set.Open("", false)
		_, err := set.Attach(t.Context(), "", s.ID)
		require.NoError(t, err)

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		_, err = set.Attach(short, "", s.ID)

		var held *session.HeldError
		require.ErrorAs(t, err, &held)

		go func() {
			time.Sleep(time.Second)
			set.Release(s, nil)
		}()

		again, err := set.Attach(t.Context(), "", s.ID)
		require.NoError(t, err)
		require.Same(t, s, again)
	})
}

func TestBindEndsWithTheSession(t *testing.T) {
	t.Parallel()

	set, ended := newSet(session.Options{Max: 1})
	s, _ := set.Open("", false)

	ctx, done := s.Bind(t.Context())
	defer done()

	why := errors.New("that is all")
	set.CloseAll(why)
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), why)
	require.Equal(t, map[string]error{s.ID: why}, ended.causes)
}

func TestState(t *testing.T) {
	t.Parallel()

	s := session.Transient()
	first := s.State().EpisodeID
	require.NotEmpty(t, first)

	reward := 0.25

	s.Stepped()
	s.Finished(rollout.Result{ID: "a", Reward: &reward, TaskID: "t", SandboxID: "a.1"})
	s.Finished(rollout.Result{ID: "b"})
	require.Equal(t, session.State{
		EpisodeID:         first,
		StepCount:         1,
		RolloutsCompleted: 2,
	}, s.State(), "the last result has no reward, and none is shown")
	s.Watch("b")
	s.Watch("a")
	s.Watch("c")
	s.Unwatch("c")
	s.Reset("ep")
	require.Equal(t, session.State{EpisodeID: "ep"}, s.State())
	require.Equal(t, []string{"a", "b"}, s.Watched(), "a rollout ends with the session, not with the episode")
}
