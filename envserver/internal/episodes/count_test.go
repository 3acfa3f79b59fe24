package episodes_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/episodes"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// host is the tool service of an episode's host.
type host struct {
	access.Episodes
	status episode.Status

	// of status
	err error

	// no host answers
	hangs  bool
	stored stored
}

// stored is a rollout and what the store has of it.
type stored struct {
	access.Rollouts

	// "": none
	log   string
	phase rollout.Phase
}

func (h *host) Ready(ctx context.Context, _ string) (episode.Status, error) {
	if h.hangs {
		<-ctx.Done()
		return episode.Status{}, fault.Wrap(fault.Timeout, context.Cause(ctx), "the episode's host does not answer")
	}

	return h.status, h.err
}

func (s *stored) Open(context.Context, string, string) (io.ReadCloser, error) {
	if s.log == "" {
		return nil, fault.New(fault.NotFound, "no log")
	}

	return io.NopCloser(strings.NewReader(s.log)), nil
}

func (s *stored) State(context.Context, string) (rollout.State, error) {
	return rollout.State{Phase: s.phase}, nil
}

func playing(t *testing.T, h *host) (*episodes.Player, *session.Session) {
	t.Helper()

	sess := session.Transient()
	require.NoError(t, sess.Play(t.Context(), session.Playing{RolloutID: "r"}))

	return episodes.New(episodes.Options{Rollouts: &h.stored, Episodes: h, Logger: slog.New(slog.DiscardHandler)}), sess
}

// The number of steps is that of the host, whatever answers this server has seen.
func TestCount(t *testing.T) {
	t.Parallel()

	h := &host{status: episode.Status{Steps: 3, Running: 1, ToolsUsed: []string{"bash"}}}
	p, sess := playing(t, h)
	running, err := p.Count(t.Context(), sess)
	require.NoError(t, err)
	require.Equal(t, 1, running)
	require.Equal(t, 3, sess.State().StepCount)
	require.Equal(t, []string{"bash"}, sess.Playing().ToolsUsed)
}

// Of an episode that takes no more calls the number is that of the stored log.
func TestCountOfAnEndedEpisode(t *testing.T) {
	t.Parallel()

	h := &host{err: fault.New(fault.Conflict, "the episode has ended"), stored: stored{phase: rollout.PhaseVerifying}}
	p, sess := playing(t, h)
	_, err := p.Count(t.Context(), sess)
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "the log is not stored yet")

	h.stored.log = `{"kind":"join","client":"a"}
{"kind":"call","step":1,"tool":"bash","result":{"content":"x"}}
{"kind":"call","step":2,"tool":"edit"}
{"kind":"submit"}
`
	running, err := p.Count(t.Context(), sess)
	require.NoError(t, err)
	require.Zero(t, running)
	require.Equal(t, 2, sess.State().StepCount)
	require.Equal(t, []string{"bash", "edit"}, sess.Playing().ToolsUsed)
}

// While no host answers, the number is not known.
func TestCountWithoutAHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, sess := playing(t, &host{hangs: true})
		_, err := p.Count(t.Context(), sess)
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
	})
}
