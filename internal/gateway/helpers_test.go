package gateway_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

const pollStep = 5 * time.Millisecond

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)

	return ctx, cancel
}

func traceBytes(n int64) func(*gateway.Options) {
	return func(o *gateway.Options) { o.TraceBytes = n }
}

// random returns random text, which has no long part in common with other text.
func random(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(rand.IntN(26))
	}

	return string(b)
}
