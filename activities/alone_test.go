package activities_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const solution = "/home/user/workdir/hello.py"

// stall holds a request of a box up, with the box open to others, until it is let go.
type stall struct {
	held, free chan struct{}
	once       sync.Once
}

func newStall() *stall { return &stall{held: make(chan struct{}), free: make(chan struct{})} }

func (s *stall) wait(b *box) {
	s.once.Do(func() { close(s.held) })
	b.mu.Unlock()
	<-s.free
	b.mu.Lock()
}

// A step that Temporal gives out again while the try before is at work, as after an outage of its own, must not prepare the
// place in which the new one grades already: the verifier would find no work, and the reward would be 0.
func TestTriesOfAStepDoNotWorkSideBySide(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	agents := h.sandbox(t)
	agents.see(func() { agents.files[solution] = "print('hi')" })
	first, next := newStall(), newStall() // the first try before it removes the workdir, and right after
	defer close(next.free)
	script := make(chan *box, 1)
	h.provider.exec = func(b *box, _ string, _ wire.Process) exec { script <- b; return exec{busy: true} }
	require.NoError(t, h.provider.Create(t.Context(), "r.1.v", h.provider.specs["r.1"]))
	graded, _ := h.provider.box("r.1.v")
	removals := map[string]int{}
	graded.refuse = func(method, _ string, q map[string][]string) error {
		if method != http.MethodDelete {
			return nil
		}
		path := q["path"][0]
		switch removals[path]++; {
		case path == rollout.Workdir && removals[path] == 1:
			first.wait(graded)
		case path == "/home/user/logs" && removals[path] == 2:
			next.wait(graded)
		}
		return nil
	}
	in := verifyInput(rollout.Verifier{Script: "x"})
	old, given := make(chan error, 1), make(chan activities.Grade, 1)
	go func() { _, err := h.RunVerifier(t.Context(), in); old <- err }()
	<-first.held
	go func() {
		grade, err := h.RunVerifier(t.Context(), in)
		if err != nil {
			t.Error(err)
		}
		given <- grade
	}()
	b := <-script // of the second try
	close(first.free)
	select {
	case err := <-old:
		require.Equal(t, fault.Unavailable, fault.KindOf(err))
	case <-next.held: // it goes on beside
	}
	b.see(func() {
		reward := "0"
		if b.files[solution] != "" {
			reward = "1"
		}
		b.files[rollout.RewardFile] = reward
		*b.procs["verify-script"] = wire.Status{Name: "verify-script"}
	})
	require.Equal(t, 1.0, (<-given).Reward)
}

// What the workflow dropped of an attempt is over before the attempt is closed: it would make a sandbox that nobody closes.
func TestClosingWaitsForTheStepThatWasDropped(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.sandbox(t)
	waiting := make(chan struct{})
	var once sync.Once
	h.coder.onWait = func(ctx context.Context) { once.Do(func() { close(waiting) }); <-ctx.Done() }
	over := make(chan error, 1)
	go func() { _, err := h.RunAgent(t.Context(), agentInput()); over <- err }()
	<-waiting
	require.NoError(t, h.CloseSandbox(t.Context(), activities.CloseInput{Target: target()}))
	select {
	case err := <-over:
		require.Error(t, err)
	default:
		require.Fail(t, "the agent is watched still")
	}
}
