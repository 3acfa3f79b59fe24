package sandbox_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/backchannel"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Requests whose bodies are not read do not block other requests of the sandbox. They may wait for memory
// that those requests hold.
func TestUnreadBodiesBlockNoOtherRequest(t *testing.T) {
	t.Parallel()

	channel := backchannel.New(wire.ModelUpgrade, slog.New(slog.DiscardHandler))
	b := sandbox.New(newFake(t, channel.Upgrade), sandbox.Options{})
	over := make(chan struct{})

	release := sync.OnceFunc(func() { close(over) })
	defer release()

	begun := make(chan struct{}, 8)
	ctx, cancel := context.WithCancel(t.Context())

	served := make(chan error, 1)
	go func() {
		served <- b.ServeModel(ctx, "r.1", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/waits" {
				begun <- struct{}{}

				<-over
			}

			_, _ = io.Copy(io.Discard, req.Body)
		}), nil)
	}()

	call := func(ctx context.Context, path string) error {
		conn, err := channel.Get(ctx)
		if err != nil {
			return err
		}

		req, err := http.NewRequestWithContext(
			ctx,
			http.MethodPost,
			"http://gateway"+path,
			strings.NewReader(strings.Repeat("x", 4<<20)),
		)
		if err != nil {
			return err
		}

		res, err := conn.RoundTrip(req)
		if err != nil {
			return err
		}

		return res.Body.Close()
	}

	var waiting sync.WaitGroup
	for range cap(begun) {
		waiting.Go(func() { assert.NoError(t, call(ctx, "/waits")) })
	}

	for range cap(begun) {
		<-begun
	}

	soon, done := context.WithTimeout(ctx, 5*time.Minute)
	defer done()

	require.NoError(t, call(soon, "/goes"))
	release()
	waiting.Wait()
	cancel()
	require.NoError(t, <-served)
}
