package supervisor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/supervisor"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// A write is retried while the store is unavailable, but not after a refusal.
func TestRetryUnavailable(t *testing.T) {
	t.Parallel()

	silent, refused := fault.New(fault.Unavailable, "connection reset"), errors.New("refused")
	for name, c := range map[string]struct {
		// the last one repeats
		answers []error
		writes  int
		want    error
	}{
		"answered":           {[]error{nil}, 1, nil},
		"answered at last":   {[]error{silent, silent, nil}, 3, nil},
		"refused":            {[]error{refused}, 1, refused},
		"silent, then not":   {[]error{silent, refused}, 2, refused},
		"silent all the way": {[]error{silent}, 6, silent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				writes := 0
				err := supervisor.RetryUnavailable(t.Context(), func() error {
					writes++
					return c.answers[min(writes, len(c.answers))-1]
				})
				require.ErrorIs(t, err, c.want)
				require.Equal(t, c.writes, writes)
			})
		})
	}

	ctx, cancel := context.WithCancel(t.Context())
	writes := 0
	err := supervisor.RetryUnavailable(ctx, func() error { writes++; cancel(); return silent })
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, writes)
}
