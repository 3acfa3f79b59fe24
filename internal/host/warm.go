package host

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// takeTimeout bounds the check and the hand-over of a warm sandbox. A rollout that gets none is created a cold one,
// which takes longer on a busy machine, where an agent answers after seconds.
const takeTimeout = 10 * time.Second

// WarmAgent describes the agent of a warm sandbox: its name, and the part of the job that is known before
// the sandbox exists.
type WarmAgent struct {
	Name string
	Job  agent.Job
}

// WarmSandboxes creates, checks and hands over the warm sandboxes of a backend; WarmBackend implements it.
type WarmSandboxes interface {
	// Key identifies the jobs that can share a warm agent; "": the agent cannot be warmed.
	Key(a WarmAgent) string
	// ListWarm lists the ids of the living warm sandboxes with their keys, also of those that are not ready.
	ListWarm(ctx context.Context) (map[string]string, error)
	// Start creates the sandbox and starts its agent. After an error the caller calls Destroy.
	Start(ctx context.Context, id string, a WarmAgent) error
	// Ready renews the lease of a warm sandbox, and reports whether its agent waits for a job and responds.
	Ready(ctx context.Context, id, key string) (bool, error)
	HandOver(ctx context.Context, from, to string, s rollout.Sandbox, labels map[string]string) error
	Destroy(ctx context.Context, id string) error
}

// Room returns how many sandboxes of default size fit on the host besides those of rollouts; *Capacity implements it.
type Room interface {
	Spare(ctx context.Context) (int, error)
}

// WarmOptions describe a pool. Size and Sandboxes are needed.
type WarmOptions struct {
	// warm sandboxes at most
	Size      int
	Sandboxes WarmSandboxes
	Room      Room

	// none is started while an agent is; nil: no bound
	Starts *Starts

	// a label of the metrics
	Backend  string
	Registry prometheus.Registerer

	// nil: silent
	Logger *slog.Logger
}

// WarmPool keeps a few sandboxes in which an agent waits for its job, so that a rollout need not wait for
// the agent's start, or for its sandbox where the agent needs nothing in it.
//
// It starts sandboxes for the kind of job that was requested last, one at a time, while no rollout's agent
// is starting. They use only room and CPU time that rollouts leave. A sandbox that was handed to a rollout
// never returns to the pool.
//
// Its state follows from the sandboxes: a restarted worker finds the ready ones and destroys the incomplete
// ones. Sandboxes of a worker that is not restarted end with their leases. A nil pool has no sandboxes. It
// is safe for concurrent use.
type WarmPool struct {
	o   WarmOptions
	log *slog.Logger

	// holds one element while there is something to do
	wake    chan struct{}
	waiting prometheus.Gauge
	takes   *prometheus.CounterVec

	mu sync.Mutex

	// the oldest first
	ready []warmSandbox

	// ids to destroy
	garbage []string

	// what to start
	demand demand

	// ends the start that is under way; nil: there is none
	stop context.CancelFunc
}

type warmSandbox struct{ id, key string }

// NewWarmPool makes a pool without sandboxes; Run fills it.
func NewWarmPool(o WarmOptions) *WarmPool {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	f := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"backend": o.Backend}, o.Registry))

	return &WarmPool{
		o: o, log: o.Logger, wake: make(chan struct{}, 1), demand: demand{last: time.Now()},
		waiting: f.NewGauge(prometheus.GaugeOpts{
			Name: "rolloutd_warm_sandboxes", Help: "Sandboxes that wait for a rollout.",
		}),
		takes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_warm_takes_total", Help: "Rollouts that wanted a warm sandbox, by whether they got one.",
		}, []string{"result"}),
	}
}

// Take hands a ready sandbox for a to a rollout, under the id to, with the sizes of s. It returns false if
// there is none, or if a sandbox of that id exists.
func (p *WarmPool) Take(ctx context.Context, to string, a WarmAgent, s rollout.Sandbox, labels map[string]string) bool {
	if p == nil || p.o.Size == 0 {
		return false
	}

	key := p.o.Sandboxes.Key(a)
	if key == "" {
		return false
	}

	p.recordRequest(key, a)
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
			p.markForRemoval(w.id)
		}
	}
}

func (p *WarmPool) handOver(
	ctx context.Context,
	w warmSandbox,
	to string,
	s rollout.Sandbox,
	labels map[string]string,
) error {
	ready, err := p.o.Sandboxes.Ready(ctx, w.id, w.key)
	if err == nil && !ready {
		err = fault.New(fault.AgentFailed, "its agent does not answer")
	}

	if err != nil {
		return err
	}

	return p.o.Sandboxes.HandOver(ctx, w.id, to, s, labels)
}

// MakeRoom destroys warm sandboxes whose room the rollouts need.
func (p *WarmPool) MakeRoom(ctx context.Context) {
	if p == nil || !p.hasSandboxes() {
		return
	}

	spare, err := p.o.Room.Spare(ctx)
	if err != nil {
		// the host cannot list its sandboxes, so the creation fails as well
		return
	}

	p.shrink(spare)
	p.collect(ctx)
}

// WarmLabels are the labels of a warm sandbox.
func WarmLabels(key string) map[string]string {
	return map[string]string{driver.LabelPurpose: driver.PurposeWarm, driver.LabelWarm: key}
}
