package session_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// slowKeeper is a keeper whose loads and saves each wait for a token if the channel is not nil.
type slowKeeper struct {
	memoryKeeper
	loads, saves chan struct{}
}

func (k *slowKeeper) Load(ctx context.Context, key string) ([]byte, error) {
	data, err := k.memoryKeeper.Load(ctx, key)
	if k.loads != nil {
		<-k.loads
	}

	return data, err
}

func (k *slowKeeper) Save(ctx context.Context, key string, data []byte) error {
	if k.saves != nil {
		<-k.saves
	}

	return k.memoryKeeper.Save(ctx, key, data)
}

// Concurrent calls that begin one session all get it. The same id of another client is another session.
func TestBeginAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &slowKeeper{memoryKeeper: memoryKeeper{m: map[string][]byte{}}, loads: make(chan struct{})}
		set, _ := newSet(session.Options{Max: 2, Keeper: k})
		first, second := make(chan error, 2), make(chan error, 1)

		for range 2 {
			go func() { first <- set.Begin(t.Context(), "owner", "s") }()
		}

		synctest.Wait()

		go func() { second <- set.Begin(t.Context(), "other", "s") }()

		synctest.Wait()

		k.loads <- struct{}{}

		k.loads <- struct{}{}

		assert.NoError(t, <-first)
		assert.NoError(t, <-first)
		close(k.loads)
		assert.NoError(t, <-second)
		require.Equal(t, 2, set.Len())
	})
}

// A session whose first save is in progress is not mistaken for a session that another replica has closed.
func TestUseDuringTheFirstSave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &slowKeeper{memoryKeeper: memoryKeeper{m: map[string][]byte{}}, saves: make(chan struct{})}
		set, _ := newSet(session.Options{Max: 1, Keeper: k})
		s, err := set.Open("", false)
		require.NoError(t, err)

		saved := make(chan error, 1)
		go func() { saved <- s.Save(t.Context()) }()

		synctest.Wait()

		_, done, err := set.Use(t.Context(), "", s.ID)

		close(k.saves)
		require.NoError(t, <-saved)
		require.NoError(t, err)
		done()
	})
}
