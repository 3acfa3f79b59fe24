package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// A process that looks at its clock does not stand still; one that cannot look has stood still for all but a second of the time.
func TestStandstill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s clock.Standstill
		ctx, stop := context.WithCancel(t.Context())
		running := make(chan error, 1)
		go func() { running <- s.Run(ctx) }()
		time.Sleep(time.Hour)
		now, total := s.Look()
		require.Equal(t, time.Now(), now)
		require.Zero(t, total)
		stop()
		require.ErrorIs(t, <-running, context.Canceled)

		time.Sleep(5 * time.Second) // a busy machine
		_, total = s.Look()
		require.Zero(t, total)
		time.Sleep(time.Minute)
		now, total = s.Look()
		require.Equal(t, time.Now(), now)
		require.Equal(t, 59*time.Second, total)
		_, total = s.Look()
		require.Equal(t, 59*time.Second, total, "it counts once")
		time.Sleep(11 * time.Second)
		_, total = s.Look()
		require.Equal(t, 69*time.Second, total)
	})
}

func TestNoStandstill(t *testing.T) {
	t.Parallel()
	var s *clock.Standstill
	now, total := s.Look()
	require.WithinDuration(t, time.Now(), now, time.Minute)
	require.Zero(t, total)
}
