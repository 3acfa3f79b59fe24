package daemon

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// restarts cancels activities when their worker stops and makes Temporal retry them at once. The SDK would let them run for the whole
// stop timeout and report nothing, so that Temporal would wait for their heartbeat timeout. Activities attach to what they have done, so
// a retry costs nothing.
type restarts struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity wraps next.
func (*restarts) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &restartable{}
	in.Next = next
	return in
}

type restartable struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity runs the activity until it ends or its worker stops.
func (r *restartable) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	stopping := activity.GetWorkerStopChannel(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() { // ends with the activity
		defer close(watched)
		select {
		case <-stopping:
			cancel(worker.ErrWorkerShutdown)
		case <-over:
		}
	}()
	defer func() { close(over); <-watched; cancel(nil) }()
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
