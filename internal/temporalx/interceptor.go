package temporalx

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// Interceptor wraps every activity. It heartbeats for activities with a heartbeat timeout, so that Temporal
// notices a dead worker and delivers cancellations. Its heartbeats repeat the latest details that the
// activity recorded, in this attempt or the previous one. It converts errors to Temporal's, by their kind.
type Interceptor struct{ interceptor.InterceptorBase }

// InterceptActivity wraps next.
func (*Interceptor) InterceptActivity(
	_ context.Context,
	next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	in := &activityInbound{}
	in.Next = next

	return in
}

type activityInbound struct {
	interceptor.ActivityInboundInterceptorBase

	// the outbound part of the same activity
	out *activityOutbound
}

// Init wraps the outbound interceptor, through which all heartbeats go.
func (a *activityInbound) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	a.out = &activityOutbound{}
	a.out.Next = outbound

	return a.Next.Init(a.out)
}

// ExecuteActivity runs the activity with a heartbeat that ends with it.
func (a *activityInbound) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	ctx = context.WithValue(ctx, notesKey{}, a.out)

	stop := keepHeartbeat(ctx)
	defer stop()

	out, err := a.Next.ExecuteActivity(ctx, in)

	return out, failure.ToTemporal(err)
}

// lastBeat bounds a heartbeat that is in flight when its activity ends. Canceling it would log an error.
const lastBeat = time.Second

// keepHeartbeat heartbeats until the returned function is called, which waits for a heartbeat in flight.
func keepHeartbeat(ctx context.Context) (stop func()) {
	info := activity.GetInfo(ctx)
	if info.HeartbeatTimeout <= 0 || info.IsLocalActivity {
		return func() {}
	}

	ctx, cancel := context.WithCancel(ctx)
	// A third of the timeout: the SDK throttles heartbeats, and one may be late. The first comes after that
	// time, since the timeout begins with the activity and most activities end before.
	end := clock.Every(ctx, max(info.HeartbeatTimeout/3, time.Millisecond), func(ctx context.Context) {
		activity.RecordHeartbeat(ctx)
	})

	return func() {
		defer cancel()
		defer time.AfterFunc(lastBeat, cancel).Stop()

		end()
	}
}

// activityOutbound repeats the latest details, since a heartbeat without details would erase them.
type activityOutbound struct {
	interceptor.ActivityOutboundInterceptorBase

	// held while a heartbeat is sent, which takes long when Temporal does not answer
	sending sync.Mutex
	mu      sync.Mutex

	// details of the activity's latest heartbeat, or of the next one
	latest []any
}

// note sets the details of the next heartbeats.
func (o *activityOutbound) note(details ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.latest = details
}

// RecordHeartbeat heartbeats with the details, or with the latest ones if there are none.
func (o *activityOutbound) RecordHeartbeat(ctx context.Context, details ...any) {
	o.sending.Lock()
	defer o.sending.Unlock()

	if len(details) > 0 {
		o.note(details...)
	}

	o.Next.RecordHeartbeat(ctx, o.details(ctx)...)
}

// details are the latest ones: of this attempt, else of the previous one.
func (o *activityOutbound) details(ctx context.Context) []any {
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.latest == nil && o.HasHeartbeatDetails(ctx) {
		var before converter.RawValue
		if o.GetHeartbeatDetails(ctx, &before) == nil {
			o.latest = []any{before}
		}
	}

	return o.latest
}
