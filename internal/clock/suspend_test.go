package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// A gap of more than five seconds between two readings counts as suspended time, less one second.
func TestSuspendMonitor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s clock.SuspendMonitor

		ctx, stop := context.WithCancel(t.Context())

		running := make(chan error, 1)
		go func() { running <- s.Run(ctx) }()

		time.Sleep(time.Hour)

		now, total := s.Read()
		require.Equal(t, time.Now(), now)
		require.Zero(t, total)
		stop()
		require.ErrorIs(t, <-running, context.Canceled)

		// a slow machine
		time.Sleep(5 * time.Second)

		_, total = s.Read()
		require.Zero(t, total)
		time.Sleep(time.Minute)

		now, total = s.Read()
		require.Equal(t, time.Now(), now)
		require.Equal(t, 59*time.Second, total)
		_, total = s.Read()
		require.Equal(t, 59*time.Second, total, "it counts once")
		time.Sleep(11 * time.Second)

		_, total = s.Read()
		require.Equal(t, 69*time.Second, total)
	})
}

func TestNilSuspendMonitor(t *testing.T) {
	t.Parallel()

	var s *clock.SuspendMonitor

	now, total := s.Read()
	require.WithinDuration(t, time.Now(), now, time.Minute)
	require.Zero(t, total)
}
