package activities_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const solution = "/home/user/workdir/hello.py"

// stall blocks a request of a sandbox until it is released. The sandbox still serves requests that do not change it.
type stall struct {
	held, free chan struct{}
	once       sync.Once
}

func newStall() *stall { return &stall{held: make(chan struct{}), free: make(chan struct{})} }

func (s *stall) wait(b *fakeSandbox) {
	s.once.Do(func() { close(s.held) })
	b.mu.Unlock()
	<-s.free
	b.mu.Lock()
}

// When Temporal retries an activity while its previous attempt runs, for instance after an outage of
// Temporal, the previous attempt must not restore the workspace in which the new one already grades: the
// verifier would find no work, and the reward would be 0. A request of the previous attempt to the sandbox
// continues after the attempt has ended.
func TestRetryWaitsForPreviousAttempt(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	agents := h.sandbox(t)
	agents.locked(func() { agents.files[solution] = "print('hi')" })
	// blocks the first attempt while it restores the home
	restoring := newStall()

	goOn := sync.OnceFunc(func() { close(restoring.free) })
	defer goOn()

	h.provider.exec = func(b *fakeSandbox, _ string, _ wire.Process) exec {
		reward := "0"
		if b.files[solution] != "" {
			reward = "1"
		}

		return rewards(reward)
	}
	require.NoError(t, h.provider.Create(t.Context(), "r.1.v", h.provider.specs["r.1"]))
	graded, _ := h.provider.box("r.1.v")
	restores := 0
	graded.refuse = func(method, _ string, q map[string][]string) error {
		if method == http.MethodPut && len(q["exact"]) > 0 {
			if restores++; restores == 1 {
				restoring.wait(graded)
			}
		}

		return nil
	}
	in := verifyInput(rollout.Verifier{Script: "x"})
	old, given := make(chan error, 1), make(chan activities.Grade, 1)

	go func() { _, err := h.RunVerifier(t.Context(), in); old <- err }()

	<-restoring.held

	go func() {
		grade, err := h.RunVerifier(t.Context(), in)
		if err != nil {
			t.Error(err)
		}

		given <- grade
	}()

	select {
	case err := <-old:
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
	case <-time.After(5 * time.Minute):
		require.Fail(t, "it goes on beside the new one")
	}

	goOn()
	require.Equal(t, 1.0, (<-given).Reward)
}

// A canceled activity of an attempt ends before the attempt is closed; otherwise it could create a sandbox
// that nothing closes.
func TestCloseWaitsForCanceledActivity(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)

	waiting, existed := make(chan struct{}), make(chan bool, 1)

	var once sync.Once

	h.coder.onNext = func(ctx context.Context) {
		once.Do(func() {
			close(waiting)
			<-ctx.Done()

			_, exists := h.provider.box("r.1")
			existed <- exists
		})
	}
	over := make(chan error, 1)

	go func() { _, err := h.RunAgent(t.Context(), agentInput()); over <- err }()

	<-waiting
	require.NoError(t, h.CloseSandbox(t.Context(), activities.CloseInput{Target: target()}))
	require.Len(t, existed, 1, "the agent is watched still")
	require.True(t, <-existed, "the sandbox outlives the activity")
	require.Error(t, <-over)
}
