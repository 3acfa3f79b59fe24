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
// no call.
func TestHoldSandboxNoticesTheLoss(t *testing.T) {
	t.Parallel()

	for name, lost := range map[string]string{"its own": "r.1", "of a service": "r.1.s-web"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			h := newHost(t)
			h.sandbox(t)
			h.beside(t, "r.1")

			o := h.options
			o.Lease, o.Registry = 10*time.Millisecond, nil
			acts := activities.New(o)

			in := activities.HoldInput{Target: target()}
			in.Services = "web"

			held := make(chan error, 1)
			go func() { held <- acts.HoldSandbox(t.Context(), in) }()

			_, err := o.Episodes.Get(t.Context(), "r.1", time.Minute)
			require.NoError(t, err)

			require.NoError(t, h.provider.Destroy(t.Context(), lost))

			err = <-held
			require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)

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
