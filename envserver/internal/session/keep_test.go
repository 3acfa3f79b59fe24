package session_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// memoryKeeper keeps records in memory and counts those that were written.
type memoryKeeper struct {
	mu     sync.Mutex
	m      map[string][]byte
	writes []string
}

func (k *memoryKeeper) Load(_ context.Context, key string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()

	if data, ok := k.m[key]; ok {
		return data, nil
	}

	return nil, fault.New(fault.NotFound, "nothing under %s", key)
}

func (k *memoryKeeper) Save(_ context.Context, key string, data []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()

	k.m[key] = bytes.Clone(data)
	kind, _, _ := strings.Cut(key, "-")
	k.writes = append(k.writes, kind)

	return nil
}

func (k *memoryKeeper) Delete(_ context.Context, key string) error {
	k.mu.Lock()
	defer k.mu.Unlock()

	delete(k.m, key)

	return nil
}

// An episode's record is not written with every change of its session, but often enough that it is not
// deleted as abandoned while the session is in use.
func TestEpisodeRecordIsRewrittenWhileInUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &memoryKeeper{m: map[string][]byte{}}
		set, _ := newSet(session.Options{Max: 1, Keeper: k})
		s, err := set.Open("", false)
		require.NoError(t, err)

		step := func(after time.Duration) []string {
			time.Sleep(after)

			k.writes = nil

			s.Stepped()
			require.NoError(t, s.Save(t.Context()))

			return k.writes
		}
		require.Equal(t, []string{"session", "episode"}, step(0))
		require.Equal(t, []string{"session"}, step(50*time.Minute))
		require.Equal(t, []string{"session", "episode"}, step(20*time.Minute))
		require.Equal(t, []string{"session"}, step(time.Minute))
	})
}

// FuzzRecord stores arbitrary bytes as a session's record. They are refused, or they are a valid session
// that reads back unchanged after it is saved.
func FuzzRecord(f *testing.F) {
	for _, s := range []string{
		`{"id":"s","version":3,"state":{"episode_id":"e","step_count":2,"rollouts_completed":1,"last_reward":0.5,"rollouts":["a"]},"counted":["a"],"watched":["b"]}`,
		`{"id":"s","state":{"episode_id":"e","last_reward":NaN}}`, `{"id":"s","state":{"episode_id":"e","step_count":1e999}}`,
		`{"id":"s","version":9223372036854775807,"state":{"episode_id":"e","step_count":-1}}`, `{"id":"other","state":{"episode_id":"e"}}`,
		`{"id":"s","state":{"episode_id":"\ud800"},"counted":[""]}`, strings.Repeat(`{"state":`, 20_000), `null`, `[]`, ``, "\x00\xff",
	} {
		f.Add([]byte(s))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		k := &singleKeeper{data: data}

		s, err := k.attach(t)
		if err != nil {
			require.Equal(t, fault.Internal, fault.KindOf(err))
			return
		}

		require.NotEmpty(t, s.State().EpisodeID)
		require.GreaterOrEqual(t, s.State().StepCount, 0)
		require.GreaterOrEqual(t, s.State().RolloutsCompleted, 0)
		// a change, so that Keep stores the session
		s.Unwatch("")
		require.NoError(t, s.Save(t.Context()))
		again, err := k.attach(t)
		require.NoError(t, err)
		require.Equal(t, s.State(), again.State())
	})
}

// singleKeeper is a store with one session.
type singleKeeper struct{ data []byte }

func (o *singleKeeper) Load(context.Context, string) ([]byte, error) { return o.data, nil }

func (o *singleKeeper) Save(_ context.Context, key string, data []byte) error {
	if strings.HasPrefix(key, "session-") {
		o.data = data
	}

	return nil
}

func (o *singleKeeper) Delete(context.Context, string) error { return nil }

// attach loads the stored session, as a replica does after its start.
func (o *singleKeeper) attach(t *testing.T) (*session.Session, error) {
	t.Helper()

	set, _ := newSet(session.Options{Max: 1, Keeper: o})

	return set.Attach(t.Context(), "", "s")
}

// A call that ends after its session was closed does not store the session again.
func TestClosedSessionIsNotStoredAgain(t *testing.T) {
	t.Parallel()

	k := &memoryKeeper{m: map[string][]byte{}}
	set, _ := newSet(session.Options{Max: 1, Keeper: k})
	s, err := set.Open("", false)
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context()))
	require.NotEmpty(t, k.m)
	_, err = set.Close(t.Context(), "", s.ID)
	require.NoError(t, err)
	s.Stepped()
	require.NoError(t, s.Save(t.Context()))
	require.Empty(t, k.m)
}
