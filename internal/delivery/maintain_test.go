package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery"
)

// buffer is a sink that counts the calls of CloseDue.
type buffer struct {
	recorder
	asked int
}

func (b *buffer) CloseDue(context.Context) error {
	b.asked++
	return errors.New("the disk is full")
}

// CloseDue is called each minute for a sink that buffers groups, also after an error. Other sinks have no such call.
func TestTend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &buffer{}
		d := &delivery.Deliverer{
			Sinks: map[string]delivery.Named{"b": {Sink: b}, "r": {Sink: &recorder{}}},
			Log:   slog.New(slog.DiscardHandler),
		}

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Second)
		defer cancel()

		require.ErrorIs(t, d.Maintain(ctx), context.DeadlineExceeded)
		require.Equal(t, 10, b.asked)
	})
}
