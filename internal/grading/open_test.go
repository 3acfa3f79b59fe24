package grading_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// fullAgent has an agent's sandbox whose home cannot be saved. Attach fails once the verifier sandbox exists.
type fullAgent struct {
	grading.Sandboxes
	made     chan struct{}
	released int
}

// Attach implements grading.Sandboxes.
func (f *fullAgent) Attach(ctx context.Context, _ string) (*sandbox.Sandbox, func(), error) {
	select {
	case <-f.made:
		return nil, nil, fault.New(fault.OutOfDisk, "full")
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// CreateVerifier implements grading.Sandboxes.
func (f *fullAgent) CreateVerifier(context.Context, rollout.Target, rollout.Sandbox) (*sandbox.Sandbox, func(), error) {
	close(f.made)
	return nil, func() { f.released++ }, nil
}

// The verifier sandbox is created while the home is saved. Its lease is released if the home cannot be saved.
func TestVerifierSandboxIsCreatedDuringTheSave(t *testing.T) {
	t.Parallel()
	blobs, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer blobs.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	f := &fullAgent{made: make(chan struct{})}
	g := &grading.Grader{Store: blobs, Sandboxes: f, Logger: slog.New(slog.DiscardHandler)}
	record, err := g.Grade(ctx, grading.Job{
		Target:   rollout.Target{RolloutID: "full", Attempt: 1},
		Verifier: rollout.Verifier{Commands: []string{"true"}},
	})
	require.NoError(t, err)
	require.Equal(t, rollout.FailedBySubmission, record.Grading.Status, "%+v", record)
	require.Equal(t, 1, f.released)
}
