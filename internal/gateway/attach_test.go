package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/admin"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// slow is a Dialer whose channel is served once let receives a value, and breaks when cut receives one.
type slow struct{ let, cut chan struct{} }

func (d slow) ServeModel(ctx context.Context, _ string, _ http.Handler, served func()) error {
	select {
	case <-d.let:
	case <-ctx.Done():
		return nil
	}

	served()

	select {
	case <-d.cut:
		return errors.New("cut")
	case <-ctx.Done():
		return nil
	}
}

// A route is attached only while its channel is served, regardless of the time for connecting.
func TestAttachedWhileServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		key, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
		require.NoError(t, err)

		d := slow{make(chan struct{}), make(chan struct{})}
		s, err := gateway.New(gateway.Options{Dir: t.TempDir(), Key: key, Dialer: d})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())

		over := make(chan error)
		go func() { over <- s.Run(ctx) }()

		api := admin.New(s, admin.Options{Key: key}).Handler()
		require.Equal(
			t,
			http.StatusNoContent,
			request(t, api, key.Token("gateway admin"), "PUT", "/routes/r", routeTo("r", "", "http://127.0.0.1:9/v1")),
		)

		attached := func() bool {
			synctest.Wait()

			status, err := s.Status("r")
			require.NoError(t, err)

			return status.Attached
		}

		time.Sleep(time.Minute)
		require.False(t, attached())

		d.let <- struct{}{}

		require.True(t, attached())

		d.cut <- struct{}{}

		require.False(t, attached())
		time.Sleep(time.Minute)

		d.let <- struct{}{}

		require.True(t, attached(), "it is dialled again")
		stop()
		require.NoError(t, <-over)
	})
}
