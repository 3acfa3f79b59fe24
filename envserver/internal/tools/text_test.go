package tools_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// A rollout's result is encoded once for all callers that hold it at the same time, and again after the
// last one has released it: an encoded result without a reader is freed.
func TestResultIsSharedWhileItIsHeld(t *testing.T) {
	t.Parallel()

	made := make(chan string, 100)
	tab := table(t, &recorder{opened: made})
	give := func(id string) *tools.Text {
		text, err := tab.Result(t.Context(), id)
		require.NoError(t, err)

		return text
	}
	first := give("r1")

	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { assert.Same(t, first, give("r1")) })
	}

	all.Wait()
	runtime.GC()
	require.Same(t, first, give("r1"))
	require.NotSame(t, first, give("r2"))
	require.Len(t, made, 2)

	runtime.KeepAlive(first)
	first = nil

	require.Eventually(t, func() bool {
		runtime.GC()

		_ = give("r1")

		return len(made) > 2
	}, 5*time.Minute, 10*time.Millisecond)
}
