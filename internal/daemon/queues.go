package daemon

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/workflows"
)

const (
	// workerStop is how long activities may take to report that their worker is stopping; see restarts.
	workerStop = 5 * time.Second
	// activitiesPerSandbox bounds the activities of one rollout that run at once on its host: the current
	// one, and an abort.
	activitiesPerSandbox = 4
	// deliveriesAtOnce bounds the groups that a host delivers at the same time.
	deliveriesAtOnce = 4
	// createBeat is how often CreateSandbox may heartbeat, and so learn of an abort while it waits. The
	// SDK's default, four fifths of the heartbeat timeout, leaves a busy machine little time to spare.
	createBeat = 3 * time.Second
)

// queue returns the task queue of this host.
func (d *Daemon) queue() string { return "rolloutd-host-" + d.host }

// workflowQueue returns the task queue on which this process starts workflows. With an embedded Temporal
// server it is the queue of this host: Temporal then returns most activities with the response to a
// workflow task, which it does only for activities on the workflow's own queue. The server and the host
// share a data folder, so a workflow never needs another host. On a cluster it is the queue that all hosts
// share, so that a workflow continues when a host is lost.
func (d *Daemon) workflowQueue() string {
	if d.embedded && d.roles.Worker && d.cfg.Worker.Deployment == "" {
		return d.queue()
	}

	return rollout.TaskQueue
}

// startWorkers starts the workers of this host: those of createWorkers, one on the host's own queue, and one
// that delivers groups. They stop together.
func (d *Daemon) startWorkers(
	parts *tier.Parts,
	acts *activities.Activities,
	backends map[string]activities.Backend,
) error {
	failed := make(chan error, 1)

	all, err := d.createWorkers(acts, backends, failed)
	if err != nil {
		return err
	}

	all = append(all, d.hostWorker(acts, backends, failed), d.deliveryWorker(acts, failed))

	for i, w := range all {
		if err := w.Start(); err != nil {
			stopWorkers(all[:i])
			return fmt.Errorf("start worker: %w", err)
		}
	}

	parts.Add(tier.Part{Done: failed, Stop: func(context.Context) error { stopWorkers(all); return nil }})

	return nil
}

// createWorkers are a worker on the queue of workflows, which is also the create queue of the default
// backend, and one on the create queue of each other backend.
func (d *Daemon) createWorkers(
	acts *activities.Activities,
	backends map[string]activities.Backend,
	failed chan<- error,
) ([]worker.Worker, error) {
	names := slices.DeleteFunc(d.backends.Names(), func(name string) bool { return name == rollout.DefaultBackend })

	var all []worker.Worker
	if d.cfg.Worker.Deployment != "" {
		all = append(all, d.versionedWorker(acts, failed))
	}

	for _, name := range append([]string{rollout.DefaultBackend}, names...) {
		slots := backends[name].Capacity
		if slots == nil && d.cfg.Worker.Deployment != "" {
			// it would poll for workflows only, which versionedWorker does
			continue
		}

		w, err := d.createWorker(acts, name, slots, failed)
		if err != nil {
			return nil, fmt.Errorf("worker of backend %s: %w", name, err)
		}

		all = append(all, w)
	}

	return all, nil
}

// createWorker polls a backend's create queue; without capacity, it polls for workflows only.
func (d *Daemon) createWorker(
	acts *activities.Activities,
	backend string,
	slots *host.Capacity,
	failed chan<- error,
) (worker.Worker, error) {
	o := d.workerOptions(failed)
	o.DisableWorkflowWorker = backend != rollout.DefaultBackend || d.cfg.Worker.Deployment != ""
	o.LocalActivityWorkerOnly = slots == nil
	o.MaxHeartbeatThrottleInterval = createBeat

	if slots != nil {
		tuner, err := slots.Tuner()
		if err != nil {
			return nil, err
		}

		o.Tuner = tuner
	}

	w := worker.New(d.temporal, rollout.CreateQueue(backend), o)
	if !o.DisableWorkflowWorker {
		workflows.Register(w)
		acts.RegisterLocal(w)
	}

	if slots != nil {
		acts.RegisterCreate(w)
	}

	return w, nil
}

// versionedWorker runs workflows as a version of the worker deployment. It runs no activities: those of any
// version run on any host, because their inputs and outputs keep their fields.
func (d *Daemon) versionedWorker(acts *activities.Activities, failed chan<- error) worker.Worker {
	o := d.workerOptions(failed)
	o.LocalActivityWorkerOnly = true
	o.DeploymentOptions = worker.DeploymentOptions{
		UseVersioning: true,
		Version:       worker.WorkerDeploymentVersion{DeploymentName: d.cfg.Worker.Deployment, BuildID: Version},
	}
	w := worker.New(d.temporal, rollout.CreateQueue(rollout.DefaultBackend), o)
	workflows.Register(w)
	acts.RegisterLocal(w)

	return w
}

func (d *Daemon) hostWorker(
	acts *activities.Activities,
	backends map[string]activities.Backend,
	failed chan<- error,
) worker.Worker {
	sandboxes := 0
	for _, b := range backends {
		sandboxes += b.Capacity.MaxSlots()
	}

	o := d.workerOptions(failed)
	o.DisableWorkflowWorker = d.workflowQueue() != d.queue()
	o.MaxConcurrentActivityExecutionSize = activitiesPerSandbox * sandboxes

	w := worker.New(d.temporal, d.queue(), o)
	if !o.DisableWorkflowWorker {
		workflows.Register(w)
		acts.RegisterLocal(w)
	}

	acts.RegisterHost(w)

	return w
}

// deliveryWorker delivers groups to sinks. Each delivery holds the sequences of its group in memory.
func (d *Daemon) deliveryWorker(acts *activities.Activities, failed chan<- error) worker.Worker {
	o := d.workerOptions(failed)
	o.DisableWorkflowWorker = true
	o.MaxConcurrentActivityExecutionSize = deliveriesAtOnce
	w := worker.New(d.temporal, rollout.DeliveryQueue, o)
	acts.RegisterDelivery(w)

	return w
}

func (d *Daemon) workerOptions(failed chan<- error) worker.Options {
	return worker.Options{
		Identity:          host.Identity(d.host),
		Interceptors:      []interceptor.WorkerInterceptor{newRestarts()},
		WorkerStopTimeout: workerStop,
		OnFatalError: func(err error) {
			select {
			case failed <- err:
			default: // the first cause is reported
			}
		},
	}
}

// stopWorkers stops all workers concurrently, each within workerStop.
func stopWorkers(all []worker.Worker) {
	var running sync.WaitGroup
	for _, w := range all {
		running.Go(w.Stop)
	}

	running.Wait()
}
