package temporalx

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"

	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// Interceptor stands around every activity. While one that has a heartbeat timeout runs, it heartbeats, so that a dead worker
// is noticed and a cancellation reaches the activity, and no activity has to think of it; its heartbeats repeat what the activity
// told with one of its own, on this try or the one before. And it gives errors their Temporal type, by their kind.
type Interceptor struct{ interceptor.InterceptorBase }

// InterceptActivity puts the interceptor in front of next.
func (*Interceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &activityInbound{}
	in.Next = next
	return in
}

type activityInbound struct {
	interceptor.ActivityInboundInterceptorBase
}

// Init puts the activity's own heartbeats, and ours, through a memory of what they tell.
func (a *activityInbound) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	out := &activityOutbound{}
	out.Next = outbound
	return a.Next.Init(out)
}

// ExecuteActivity runs the activity under a heartbeat that ends with it.
func (a *activityInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	stop := keepHeartbeat(ctx)
	defer stop()
	out, err := a.Next.ExecuteActivity(ctx, in)
	return out, failure.ToTemporal(err)
}

// lastBeat is what a heartbeat that is under way when its activity ends may still take: cut short, it would be logged as failed.
const lastBeat = time.Second

// keepHeartbeat heartbeats until the function it returns is called, which waits for the goroutine's end.
func keepHeartbeat(ctx context.Context) (stop func()) {
	info := activity.GetInfo(ctx)
	if info.HeartbeatTimeout <= 0 || info.IsLocalActivity {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		// A third of the bound: the SDK thins them out, and one that comes late does no harm. None at the start: the bound
		// runs from there anyway, and most activities are over before.
		tick := time.NewTicker(max(info.HeartbeatTimeout/3, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-end:
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return func() {
		defer cancel()
		close(end)
		select {
		case <-done:
		case <-time.After(lastBeat):
			cancel()
			<-done
		}
	}
}

// activityOutbound repeats what the activity told last: to Temporal a heartbeat without details would take it back.
type activityOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	mu   sync.Mutex
	told []any
}

// RecordHeartbeat heartbeats with the details, or where there are none with the latest ones.
func (o *activityOutbound) RecordHeartbeat(ctx context.Context, details ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(details) > 0:
		o.told = details
	case o.told == nil && o.HasHeartbeatDetails(ctx):
		var before converter.RawValue
		if o.GetHeartbeatDetails(ctx, &before) == nil {
			o.told = []any{before}
		}
	}
	o.Next.RecordHeartbeat(ctx, o.told...)
}
