package tier

import (
	"context"
	"errors"
	"fmt"
)

// Background runs f, which runs until its context ends.
func Background(f func(context.Context) error) Part {
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

	return Part{Done: done, Stop: func(stop context.Context) error {
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
