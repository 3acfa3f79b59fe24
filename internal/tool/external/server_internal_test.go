package external

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// listed is a fake server that lists its tools once it may answer.
type listed struct {
	remote

	// a value for each request
	asked chan struct{}

	// closed: it may answer
	answer chan struct{}
	err    error
}

func (l *listed) list(context.Context) ([]tool.Definition, error) {
	l.asked <- struct{}{}

	<-l.answer

	return []tool.Definition{{Name: "new"}}, l.err
}

// While a server that hangs is asked again, others get the tools of the last list.
func TestServerThatHangsHoldsOneCaller(t *testing.T) {
	t.Parallel()

	hangs := &listed{asked: make(chan struct{}, 1), answer: make(chan struct{})}
	s := newServer(Options{Name: "s"}, hangs)
	s.latest = listing{tools: []tool.Definition{{Name: "old"}}, until: time.Now().Add(-time.Second)}

	ended := make(chan struct{})

	go func() {
		defer close(ended)

		_, _ = s.List(context.WithoutCancel(t.Context()))
	}()

	<-hangs.asked

	list, err := s.List(t.Context())
	require.NoError(t, err)
	require.Equal(t, "old", list[0].Name)
	close(hangs.answer)
	<-ended
}

// A server that cannot be reached is not asked by each caller, unless the one that asked has left.
func TestFailureOfAServerCountsForOthers(t *testing.T) {
	t.Parallel()

	away := &listed{
		asked: make(chan struct{}, 4), answer: make(chan struct{}), err: fault.New(fault.Unavailable, "no answer"),
	}
	close(away.answer)

	s := newServer(Options{Name: "s"}, away)
	left, leave := context.WithCancel(t.Context())
	leave()

	for _, ctx := range []context.Context{left, t.Context(), t.Context()} {
		_, err := s.List(ctx)
		require.ErrorContains(t, err, `list the tools of server "s": no answer`)
	}

	require.Len(t, away.asked, 2)
}
