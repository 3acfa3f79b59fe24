package host

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// takeTimeout bounds the check and the hand-over of a warm sandbox. A rollout that gets none is created a cold one.
const takeTimeout = 3 * time.Second

// WarmAgent is what a rollout wants of a warm sandbox: its agent, and the job as far as it is known before the sandbox is made.
type WarmAgent struct {
	Name string
	Job  agent.Job
}

// WarmSandboxes makes, checks and gives away the warm sandboxes of a backend; WarmBackend is one.
type WarmSandboxes interface {
	// Key names the jobs for which one warm agent is as good as another; "" is none.
	Key(a WarmAgent) string
	// Living lists the ids of the living warm sandboxes with their keys, also of those that are not ready.
	Living(ctx context.Context) (map[string]string, error)
	// Start makes the sandbox and its agent ready. What it leaves after an error is for Destroy.
	Start(ctx context.Context, id string, a WarmAgent) error
	// Ready renews the lease of a warm sandbox, and says whether its agent waits for a job and answers.
	Ready(ctx context.Context, id, key string) (bool, error)
	HandOver(ctx context.Context, from, to string, s rollout.Sandbox, labels map[string]string) error
	Destroy(ctx context.Context, id string) error
}

// Room says how many sandboxes of default size fit on the host beside those of rollouts; *Capacity is one.
type Room interface {
	Spare(ctx context.Context) (int, error)
}

// WarmOptions describe a pool. Size and Sandboxes are needed.
type WarmOptions struct {
	Size      int // warm sandboxes at most
	Sandboxes WarmSandboxes
	Room      Room
	Starts    *Starts // none is started while an agent is; nil: no bound
	Backend   string  // a label of the metrics
	Registry  prometheus.Registerer
	Logger    *slog.Logger // nil: silent
}

// WarmPool keeps a few sandboxes in which an agent waits for its job, so that a rollout need not wait for the agent's start, or for its
// sandbox where the agent needs nothing in it.
//
// It starts sandboxes for the kind of job that was asked for last, one at a time, while no rollout's agent is starting. They take
// only room and CPU time that rollouts leave. One that was given to a rollout is the rollout's and never comes back.
//
// All it knows can be learned from the sandboxes: a restarted worker finds those that wait, and destroys the half-made. Sandboxes of
// a worker that is not restarted end with their leases. A nil pool has no sandboxes. It is safe for concurrent use.
type WarmPool struct {
	o       WarmOptions
	log     *slog.Logger
	wake    chan struct{} // holds one element while there is something to do
	waiting prometheus.Gauge
	takes   *prometheus.CounterVec

	mu      sync.Mutex
	ready   []warmSandbox      // the oldest first
	garbage []string           // ids to destroy
	asked   asked              // what to start
	stop    context.CancelFunc // ends the start that is under way; nil: there is none
}

type warmSandbox struct{ id, key string }

// NewWarmPool makes a pool without sandboxes; Run fills it.
func NewWarmPool(o WarmOptions) *WarmPool {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	f := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"backend": o.Backend}, o.Registry))
	return &WarmPool{
		o: o, log: o.Logger, wake: make(chan struct{}, 1), asked: asked{last: time.Now()},
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "rolloutd_warm_sandboxes", Help: "Sandboxes that wait for a rollout.",
		}),
		takes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_warm_takes_total", Help: "Rollouts that wanted a warm sandbox, by whether they got one.",
		}, []string{"result"}),
	}
}

// Take gives a ready sandbox for a to a rollout, under the id to, with the sizes of s. Without one it says false: the rollout's sandbox
// has to be made, as always. A sandbox that lives under the id already is left alone.
func (p *WarmPool) Take(ctx context.Context, to string, a WarmAgent, s rollout.Sandbox, labels map[string]string) bool {
	if p == nil || p.o.Size == 0 {
		return false
	}
	key := p.o.Sandboxes.Key(a)
	if key == "" {
		return false
	}
	p.ask(key, a)
	defer p.notify()
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	for {
		w, ok := p.pop(key)
		if !ok {
			p.takes.WithLabelValues("none").Inc()
			return false
		}
		err := p.handOver(ctx, w, to, s, labels)
		switch {
		case err == nil:
			p.takes.WithLabelValues("warm").Inc()
			return true
		case fault.Is(err, fault.Conflict): // another size, or the rollout has its sandbox
			p.push(w)
			p.takes.WithLabelValues("unfit").Inc()
			return false
		default:
			p.log.WarnContext(ctx, "warm sandbox dropped", "sandbox", w.id, "error", err)
			p.drop(w.id)
		}
	}
}

func (p *WarmPool) handOver(ctx context.Context, w warmSandbox, to string, s rollout.Sandbox, labels map[string]string) error {
	ready, err := p.o.Sandboxes.Ready(ctx, w.id, w.key)
	if err == nil && !ready {
		err = fault.New(fault.AgentFailed, "its agent does not answer")
	}
	if err != nil {
		return err
	}
	return p.o.Sandboxes.HandOver(ctx, w.id, to, s, labels)
}

// MakeRoom destroys warm sandboxes that have no room beside the rollouts' any more.
func (p *WarmPool) MakeRoom(ctx context.Context) {
	if p == nil || !p.any() {
		return
	}
	spare, err := p.o.Room.Spare(ctx)
	if err != nil {
		return // the host cannot list its sandboxes: nothing is made either
	}
	p.shrink(spare)
	p.collect(ctx)
}

// WarmLabels are the labels of a warm sandbox.
func WarmLabels(key string) map[string]string {
	return map[string]string{driver.LabelPurpose: driver.PurposeWarm, driver.LabelWarm: key}
}
