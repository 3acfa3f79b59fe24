package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/clock"
)

func TestSleep(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		// ends 0: the context has ended before
		sleep, ends time.Duration
		took        time.Duration
		err         error
	}{
		"the whole time": {sleep: time.Second, ends: time.Minute, took: time.Second},
		"until the context ends": {
			sleep: time.Minute,
			ends:  time.Second,
			took:  time.Second,
			err:   context.DeadlineExceeded,
		},
		"not after the context":     {sleep: time.Minute, err: context.DeadlineExceeded},
		"no time":                   {ends: time.Minute},
		"no time after the context": {err: context.DeadlineExceeded},
		"less than no time":         {sleep: -time.Second, ends: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tc.ends)
				defer cancel()

				begun := time.Now()

				require.ErrorIs(t, clock.Sleep(ctx, tc.sleep), tc.err)
				require.Equal(t, tc.took, time.Since(begun))
			})
		})
	}
}
