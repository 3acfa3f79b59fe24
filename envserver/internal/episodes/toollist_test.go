package episodes_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/episodes"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// lists counts how often its tools are listed.
type lists struct {
	times int
	tools []episodes.Tool
	err   error
}

func (l *lists) list(context.Context) ([]episodes.Tool, error) {
	l.times++
	return l.tools, l.err
}

func names(t *testing.T, p *episodes.Player) (all []string) {
	t.Helper()
	list, err := p.Tools(t.Context())
	require.NoError(t, err)

	for _, tool := range list {
		all = append(all, tool.Name)
	}

	return all
}

// A failed listing is retried after a pause. A cached list is refreshed when it is old, and kept if that fails.
func TestToolsAreListedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lists{err: errors.New("connection refused")}

		p := episodes.New(episodes.Options{Tools: l.list, Logger: slog.New(slog.DiscardHandler)})
		for range 3 {
			_, err := p.Tools(t.Context())
			require.True(t, fault.Is(err, fault.Unavailable), err)
			require.ErrorContains(t, err, "cannot be listed now: connection refused")
		}

		require.Equal(t, 1, l.times)
		require.False(t, p.Knows("search"))

		l.err, l.tools = nil, []episodes.Tool{{Name: "search"}}

		time.Sleep(6 * time.Second)
		require.Equal(t, []string{"search", "submit"}, names(t, p))
		require.True(t, p.Knows("search"))
		first, err := p.Tools(t.Context())
		require.NoError(t, err)

		time.Sleep(2 * time.Minute)

		same, err := p.Tools(t.Context())
		require.NoError(t, err)
		require.Same(t, &first[0], &same[0], "a list that did not change is the same slice")
		require.Equal(t, 3, l.times)

		l.err = errors.New("connection refused")

		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"search", "submit"}, names(t, p))
		require.Equal(t, 4, l.times)
		require.Equal(t, []string{"search", "submit"}, names(t, p))
		require.Equal(t, 4, l.times)

		l.err, l.tools = nil, []episodes.Tool{{Name: "search"}, {Name: "extract"}}

		time.Sleep(6 * time.Second)
		require.Equal(t, []string{"search", "extract", "submit"}, names(t, p))
	})
}

// One client at a time waits for a server that hangs, and the others get the same error. A client that
// disconnects does not affect the others.
func TestToolsAreListedByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, times := time.Now(), 0
		p := episodes.New(episodes.Options{
			Logger: slog.New(slog.DiscardHandler),
			Tools: func(ctx context.Context) ([]episodes.Tool, error) {
				times++

				select {
				case <-time.After(10 * time.Second):
					return nil, errors.New("no answer")
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
		})
		left, leave := context.WithCancel(t.Context())
		answers := make(chan error, 65)

		go func() { _, err := p.Tools(left); answers <- err }()

		synctest.Wait()

		for range 64 {
			go func() { _, err := p.Tools(t.Context()); answers <- err }()
		}

		synctest.Wait()
		leave()

		for range 65 {
			require.True(t, fault.Is(<-answers, fault.Unavailable))
		}

		require.Equal(t, 2, times)
		require.Equal(t, 10*time.Second, time.Since(begun))
	})
}
