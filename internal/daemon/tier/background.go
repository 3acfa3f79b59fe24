package tier

import (
	"context"
	"errors"
	"fmt"
)

// Background runs f, which runs until its context ends, as a tier or a part of one.
func Background(f func(context.Context) error) Running {
	// canceled by Stop
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	ended := make(chan struct{})

	var result error

	go func() {
		defer close(ended)

		result = f(ctx)
		done <- result
	}()

	return Running{Done: done, Stop: func(stop context.Context) error {
		cancel()

		select {
		case <-ended:
			return ignoreEnd(result)
		case <-stop.Done():
			return fmt.Errorf("still running: %w", stop.Err())
		}
	}}
}

// ignoreEnd drops the error of a normal end.
func ignoreEnd(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}

	return err
}

// Either forwards the first error of two parts of a tier. Its goroutine ends with the first part, at the
// latest when the tier stops.
func Either(a, b <-chan error) <-chan error {
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
