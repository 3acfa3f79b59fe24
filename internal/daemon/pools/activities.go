package pools

import (
	"context"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// Job is the Nomad job of a pool; *nomad.Client is one.
type Job interface {
	Observe(ctx context.Context) (pool.Job, error)
	Register(ctx context.Context, seen pool.Job, counts map[string]int) error
	Deregister(ctx context.Context, seen pool.Job, purge bool) error
	Close()
}

// Hosts lists and drains the hosts of the deployment.
type Hosts interface {
	Hosts(ctx context.Context) (fleet.Page, error)
	// MarkDrain drains a host or resumes it. A host that is not running applies it at its start.
	MarkDrain(ctx context.Context, host string, on bool) error
}

// Activities are the activities of pools. It is safe for concurrent use.
type Activities struct {
	// the caller closes it
	Job     func(pool.Spec) (Job, error)
	Hosts   Hosts
	Backlog func(ctx context.Context, queue string) (pool.Backlog, error)

	// removes the schedule of a pool; a missing one is no error
	End func(ctx context.Context, name string) error
	Log *slog.Logger
}

// Register registers the activities.
func (a *Activities) Register(w worker.ActivityRegistry) {
	w.RegisterActivityWithOptions(a.ScalePool, activity.RegisterOptions{Name: pool.ActivityScale})
	w.RegisterActivityWithOptions(a.EndPool, activity.RegisterOptions{Name: pool.ActivityEnd})
}

// ScalePool observes a pool and applies the resulting plan. Changes may be repeated or lost: the next run plans again.
func (a *Activities) ScalePool(ctx context.Context, in pool.Input) (pool.Status, error) {
	status, err := a.scale(ctx, in)
	return status, failure.ToTemporal(err)
}

// EndPool removes the schedule of a pool that is down.
func (a *Activities) EndPool(ctx context.Context, s pool.Spec) error {
	return failure.ToTemporal(a.End(ctx, s.Name))
}

func (a *Activities) scale(ctx context.Context, in pool.Input) (pool.Status, error) {
	job, err := a.Job(in.Spec)
	if err != nil {
		return pool.Status{}, err
	}
	defer job.Close()

	o, err := a.observe(ctx, in, job)
	if err != nil {
		return pool.Status{}, err
	}

	plan, err := pool.Next(o)
	if err != nil {
		return pool.Status{}, err
	}

	if plan.Why != "" && plan.Why != in.Last.Did {
		a.Log.InfoContext(ctx, "pool planned", "pool", in.Spec.Name, "why", plan.Why, "target", plan.Target,
			"waiting", o.Backlog.Count)
	}

	if err := a.do(ctx, o, plan, job); err != nil {
		return pool.Status{}, err
	}

	return pool.StatusOf(o, plan), nil
}

func (a *Activities) observe(ctx context.Context, in pool.Input, job Job) (o pool.Observation, err error) {
	o = pool.Observation{Spec: in.Spec, Last: in.Last, Hosts: map[string]fleet.Host{}, Now: time.Now().UTC()}
	if o.Job, err = job.Observe(ctx); err != nil {
		return o, err
	}

	page, err := a.Hosts.Hosts(ctx)
	if err != nil {
		return o, err
	}

	for _, h := range page.Hosts {
		o.Hosts[h.Name] = h
	}

	o.Backlog, err = a.Backlog(ctx, rollout.CreateQueue(in.Spec.Backend))

	return o, err
}

// do marks hosts before it changes the job, so that a host that is removed takes no new sandbox.
func (a *Activities) do(ctx context.Context, o pool.Observation, plan pool.Plan, job Job) error {
	for _, m := range []struct {
		hosts []string
		on    bool
	}{{plan.Drain, true}, {plan.Resume, false}, {plan.Forget, false}} {
		for _, h := range m.hosts {
			if err := a.Hosts.MarkDrain(ctx, h, m.on); err != nil {
				return err
			}
		}
	}

	switch {
	case plan.Deregister:
		return job.Deregister(ctx, o.Job, plan.Purge)
	case plan.Counts != nil:
		return job.Register(ctx, o.Job, plan.Counts)
	}

	return nil
}
