package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// The wait for a client's score ends when the sandbox, or that of a service beside it, is lost, also if the client makes
// no call. No policy discards an attempt by leaving processes that take all memory.
func TestHoldSandboxNoticesTheLoss(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		lost   string
		killed []string
		kind   fault.Kind
	}{
		"its own":                 {"r.1", nil, fault.SandboxLost},
		"its own, without memory": {"r.1", []string{"r.1"}, fault.OutOfMemory},
		"of a service":            {"r.1.s-web", nil, fault.SandboxLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			h := newHost(t)
			h.sandbox(t)
			h.beside(t, "r.1")
			h.provider.ended = c.killed

			o := h.options
			o.Lease, o.Registry = 10*time.Millisecond, nil
			acts := activities.New(o)

			in := activities.HoldInput{Target: target()}
			in.Services = "web"

			held := make(chan error, 1)
			go func() { held <- acts.HoldSandbox(t.Context(), in) }()

			_, err := o.Episodes.Get(t.Context(), "r.1", time.Minute)
			require.NoError(t, err)

			require.NoError(t, h.provider.Destroy(t.Context(), c.lost))

			err = <-held
			require.Equal(t, c.kind, fault.KindOf(err), "%v", err)

			_, err = o.Episodes.Get(t.Context(), "r.1", 0)
			require.Error(t, err, "it takes no calls any more")
		})
	}
}

// The hold ends without an error when the next activity of the attempt begins, as after each score.
func TestHoldSandboxEndsWithTheNextActivity(t *testing.T) {
	t.Parallel()

	h := newHost(t)
	h.sandbox(t)

	holdBy := func(ctx context.Context) chan error {
		held := make(chan error, 1)
		go func() { held <- h.HoldSandbox(ctx, activities.HoldInput{Target: target()}) }()

		return held
	}
	awaitCalls := func() {
		_, err := h.options.Episodes.Get(t.Context(), "r.1", time.Minute)
		require.NoError(t, err)
	}

	first := holdBy(t.Context())

	awaitCalls()

	ctx, cancel := context.WithCancel(t.Context())
	second := holdBy(ctx)

	require.NoError(t, <-first)
	awaitCalls()

	cancel()
	require.ErrorIs(t, <-second, context.Canceled)
}
