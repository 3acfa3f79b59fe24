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

// buffer is a sink that counts how often it is asked to close what is due.
type buffer struct {
	recorder
	asked int
}

func (b *buffer) CloseDue(context.Context) error {
	b.asked++
	return errors.New("the disk is full")
}

// A sink that buffers groups is asked each minute, also after an error; others are not.
func TestTend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &buffer{}
		d := &delivery.Deliverer{Sinks: map[string]delivery.Named{"b": {Sink: b}, "r": {Sink: &recorder{}}}, Log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Second)
		defer cancel()
		require.ErrorIs(t, d.Tend(ctx), context.DeadlineExceeded)
		require.Equal(t, 10, b.asked)
	})
}
