package external

import (
	"context"
	"testing"
	"testing/synctest"
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

// A server that fails after a while is not asked by each caller, unless the one that asked has left. One that fails at once
// is: it may be back.
func TestFailureOfASlowServerCountsForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := &listed{asked: make(chan struct{}, 6), err: fault.New(fault.Unavailable, "no answer")}
		s := newServer(Options{Name: "s"}, away)
		left, leave := context.WithCancel(t.Context())
		leave()

		ask := func(ctx context.Context, takes time.Duration) {
			answer := make(chan struct{})
			away.answer = answer

			time.AfterFunc(takes, func() { close(answer) })

			_, err := s.List(ctx)
			require.ErrorContains(t, err, `list the tools of server "s": no answer`)
		}

		ask(t.Context(), 0)
		ask(left, listTime)
		ask(t.Context(), listTime)
		require.Len(t, away.asked, 3)
		ask(t.Context(), listTime)
		require.Len(t, away.asked, 3, "it is not asked again")
		time.Sleep(failureAge)
		ask(t.Context(), listTime)
		require.Len(t, away.asked, 4)
		time.Sleep(listTime)
	})
}
