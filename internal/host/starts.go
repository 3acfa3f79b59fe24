package host

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// StartKind is the kind of a start. It is a label of the metrics.
type StartKind string

const (
	// launching an agent, until it has taken its instruction
	StartAgent StartKind = "agent"

	// unpacking or mounting an image
	StartImage StartKind = "image"
)

// startBound is how long one start may hold its slot. A longer start continues without the slot, so that a
// hanging start does not block the others.
const startBound = 30 * time.Second

// Starts bounds how many heavy starts a host works on at once. An agent needs a core for about a second to
// come up; 40 of them at once on two cores all miss their deadlines, and every relaunch adds to the load.
//
// A caller that begins a heavy start acquires a slot first, and measures deadlines from then on:
//
//	release, err := starts.Acquire(ctx, host.StartAgent)
//	if err != nil {
//		return err
//	}
//	defer release() // or earlier: as soon as the start is over
//
// Slots are granted in order of arrival, for all kinds. An activity that attaches to a running agent needs
// none. A nil *Starts has no bound. It is safe for concurrent use.
type Starts struct {
	slots   *semaphore.Weighted
	n       int64
	waiting *prometheus.GaugeVec
	running *prometheus.GaugeVec
	waited  *prometheus.HistogramVec
}

// NewStarts makes the slots of a host; n below 1 means one slot for each core that the process may use. reg may be nil.
func NewStarts(n int, reg prometheus.Registerer) *Starts {
	if n < 1 {
		n = runtime.GOMAXPROCS(0)
	}

	f := promauto.With(reg)

	return &Starts{
		slots: semaphore.NewWeighted(int64(n)), n: int64(n),
		waiting: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rolloutd_starts_waiting", Help: "Heavy starts (agents, images) that wait for a slot of this host.",
		}, []string{"kind"}),
		running: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rolloutd_starts_running", Help: "Heavy starts that hold a slot of this host.",
		}, []string{"kind"}),
		waited: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rolloutd_start_wait_seconds",
			Help:    "How long heavy starts waited for a slot.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 16),
		}, []string{"kind"}),
	}
}

// Acquire waits for a slot, in order of arrival, until ctx ends (fault.Unavailable). release may be called
// more than once. A slot that is held for 30 s is released automatically.
func (s *Starts) Acquire(ctx context.Context, kind StartKind) (release func(), err error) {
	if s == nil {
		return func() {}, nil
	}

	started, label := time.Now(), string(kind)
	s.waiting.WithLabelValues(label).Inc()
	err = s.slots.Acquire(ctx, 1)
	s.waiting.WithLabelValues(label).Dec()

	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "wait to start (%s)", kind)
	}

	s.waited.WithLabelValues(label).Observe(time.Since(started).Seconds())
	s.running.WithLabelValues(label).Inc()

	var once sync.Once

	free := func() {
		once.Do(func() {
			s.running.WithLabelValues(label).Dec()
			s.slots.Release(1)
		})
	}
	overdue := time.AfterFunc(startBound, free)

	return func() { overdue.Stop(); free() }, nil
}

// idlePause is the time between two looks of Idle.
const idlePause = 100 * time.Millisecond

// Idle waits until no start runs or waits, or until ctx ends (fault.Unavailable). It is for work of lower
// priority than every start, which takes no slot.
func (s *Starts) Idle(ctx context.Context) error {
	for s != nil && !s.slots.TryAcquire(s.n) {
		if err := clock.Sleep(ctx, idlePause); err != nil {
			return fault.Wrap(fault.Unavailable, err, "wait until no agent starts")
		}
	}

	if s != nil {
		s.slots.Release(s.n)
	}

	return nil
}
