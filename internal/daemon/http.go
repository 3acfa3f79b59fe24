package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// errStopping is the cause with which requests are cancelled when the process stops: their clients did not go away.
var errStopping = errors.New("the server is stopping")

// serveHTTP serves h on l until stopped. Requests that are being answered get half of the stop's budget, and are then
// cancelled; a WebSocket, which the standard library does not count among them, is cancelled by its context.
func serveHTTP(l net.Listener, h http.Handler) Running {
	ctx, cancel := context.WithCancelCause(context.Background()) // the lifetime of the listener; ended by stop
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }() // ends by Shutdown or Close
	return Running{Done: done, Stop: func(stop context.Context) error {
		defer cancel(errStopping)
		drain, over := context.WithTimeout(stop, remaining(stop)/2)
		defer over()
		if err := srv.Shutdown(drain); err == nil {
			return nil
		}
		cancel(errStopping)
		if err := srv.Shutdown(stop); err != nil {
			return errors.Join(err, srv.Close())
		}
		return nil
	}}
}

// remaining is how long ctx still has.
func remaining(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end)
	}
	return stopBudget
}
