package daemon

import (
	"context"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// restarts cancels activities when their worker stops and makes Temporal retry them at once. The SDK would
// let them run for the whole stop timeout and report nothing, so that Temporal would wait for their
// heartbeat timeout. Activities attach to what they have done, so a retry costs nothing.
type restarts struct {
	interceptor.WorkerInterceptorBase

	mu sync.Mutex

	// contexts that end with the stop of the worker's activities, or of its local ones
	stops map[<-chan struct{}]context.Context
}

func newRestarts() *restarts { return &restarts{stops: map[<-chan struct{}]context.Context{}} }

// InterceptActivity wraps next.
func (r *restarts) InterceptActivity(
	_ context.Context,
	next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	in := &restartable{worker: r}
	in.Next = next

	return in
}

// until returns a context that ends with the channel, which is the same for all activities of a worker: one
// goroutine waits for it.
func (r *restarts) until(stopping <-chan struct{}) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()

	if ctx, ok := r.stops[stopping]; ok {
		return ctx
	}

	ctx, cancel := context.WithCancel(context.Background())
	// ends with the worker
	go func() {
		<-stopping
		cancel()
	}()

	r.stops[stopping] = ctx

	return ctx
}

type restartable struct {
	interceptor.ActivityInboundInterceptorBase
	worker *restarts
}

// ExecuteActivity runs the activity until it ends or its worker stops.
func (r *restartable) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	stopping := activity.GetWorkerStopChannel(ctx)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.worker.until(stopping), func() { cancel(worker.ErrWorkerShutdown) })()

	out, err := r.Next.ExecuteActivity(ctx, in)
	if err != nil && closed(stopping) {
		return nil, failure.Restarting()
	}

	return out, err
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
