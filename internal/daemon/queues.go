package daemon

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/workflows"
)

const (
	// workerStop is how long activities may take to report that their worker is stopping; see restarts.
	workerStop = 5 * time.Second
	// stepsPerSandbox is how many steps of one rollout may run at once on its host: the one under way, and an abort.
	stepsPerSandbox = 4
	// createBeat is how often CreateSandbox may tell Temporal that it is at work, and so hear of an abort while it waits for the
	// model endpoint. The SDK's own measure, four fifths of the heartbeat's bound, would leave a busy machine little time to spare.
	createBeat = 3 * time.Second
)

// queue is this host's own task queue.
func (d *Daemon) queue() string { return "rolloutd-host-" + d.host }

func (d *Daemon) sharedWorker(acts *activities.Activities, slots *host.Capacity, failed chan<- error) (worker.Worker, error) {
	tuner, err := slots.Tuner()
	if err != nil {
		return nil, fmt.Errorf("slots: %w", err)
	}
	o := d.workerOptions(failed)
	o.Tuner = tuner
	o.MaxHeartbeatThrottleInterval = createBeat
	w := worker.New(d.temporal, rollout.TaskQueue, o)
	workflows.Register(w)
	acts.RegisterShared(w)
	return w, nil
}

func (d *Daemon) hostWorker(acts *activities.Activities, sandboxes int, failed chan<- error) worker.Worker {
	o := d.workerOptions(failed)
	o.DisableWorkflowWorker = true
	o.MaxConcurrentActivityExecutionSize = stepsPerSandbox * sandboxes
	w := worker.New(d.temporal, d.queue(), o)
	acts.RegisterHost(w)
	return w
}

func (d *Daemon) workerOptions(failed chan<- error) worker.Options {
	return worker.Options{
		Identity:          host.Identity(d.host),
		Interceptors:      []interceptor.WorkerInterceptor{&restarts{}},
		WorkerStopTimeout: workerStop,
		OnFatalError: func(err error) {
			select {
			case failed <- err:
			default: // the first cause is the one to tell
			}
		},
	}
}

// startWorkers starts all of them or none.
func startWorkers(all ...worker.Worker) error {
	for i, w := range all {
		if err := w.Start(); err != nil {
			return errors.Join(err, stopWorkers(all[:i]...))
		}
	}
	return nil
}

// stopWorkers stops them side by side; each is bounded by workerStop.
func stopWorkers(all ...worker.Worker) error {
	var g errgroup.Group
	for _, w := range all {
		g.Go(func() error { w.Stop(); return nil })
	}
	return g.Wait()
}
