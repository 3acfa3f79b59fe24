package daemon

import (
	"context"
	"errors"
	"fmt"
)

// background runs f, which works until its context ends, as a tier or a part of one.
func background(f func(context.Context) error) Running {
	ctx, cancel := context.WithCancel(context.Background()) // the lifetime of f; ended by Stop
	done := make(chan error, 1)
	over := make(chan struct{})
	var result error
	go func() {
		defer close(over)
		result = f(ctx)
		done <- result
	}()
	return Running{Done: done, Stop: func(stop context.Context) error {
		cancel()
		select {
		case <-over:
			return ignoreEnd(result)
		case <-stop.Done():
			return fmt.Errorf("still at work: %w", stop.Err())
		}
	}}
}

// ignoreEnd drops the error by which something says that it ended because it was told to.
func ignoreEnd(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// either passes on the first error of two parts of one tier. Its goroutine ends with the first of them, as both do at the
// latest when the tier is stopped.
func either(a, b <-chan error) <-chan error {
	out := make(chan error, 1)
	go func() {
		select {
		case err := <-a:
			out <- err
		case err := <-b:
			out <- err
		}
	}()
	return out
}
