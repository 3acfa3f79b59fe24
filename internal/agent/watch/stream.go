package watch

import "context"

// update is one result of a stream.
type update[T any] struct {
	value T
	err   error
}

// stream calls a blocking function again and again in one goroutine, and hands on what it returns.
type stream[T any] struct {
	updates chan update[T]
	cancel  context.CancelFunc
	ended   chan struct{}
}

// startStream calls next until it says that there is no more, or the stream is closed.
func startStream[T any](ctx context.Context, next func(context.Context) (value T, more bool, err error)) *stream[T] {
	ctx, cancel := context.WithCancel(ctx) //nolint:gosec // close calls it
	s := &stream[T]{updates: make(chan update[T]), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for more := true; more; {
			var u update[T]
			u.value, more, u.err = next(ctx)
			select {
			case s.updates <- u:
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}

// close ends the goroutine and waits for it.
func (s *stream[T]) close() {
	s.cancel()
	<-s.ended
}
