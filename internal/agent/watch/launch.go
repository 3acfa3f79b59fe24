package watch

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// open attaches to the agent that runs, or launches it. An abort that came before the launch leaves run nil.
func (w *watch) open(ctx context.Context) error {
	run, err := w.job.Kind.Attach(ctx, w.job.Env, w.job.Work)
	if fault.Is(err, fault.NotFound) {
		return w.launch(ctx, 1)
	}
	if err != nil {
		return err
	}
	if err := w.follow(ctx, run); err != nil {
		return err
	}
	w.state.attached(time.Now())
	w.resume(ctx)
	return nil
}

// launch starts launch n once the host has a slot for it. The route's status of after the wait counts.
func (w *watch) launch(ctx context.Context, n int) error {
	release, err := w.acquireStart(ctx, n)
	if err != nil {
		return err
	}
	w.starting = release
	route, err := w.Gateway.Status(ctx, w.job.SandboxID)
	if err := w.sawRoute(&gateway.Change{Status: route, Err: err}); err != nil {
		return err
	}
	if w.state.Route.Ended != "" {
		return nil
	}
	job := w.job.Work
	job.Launch = n
	run, err := w.job.Kind.Open(ctx, w.job.Env, job)
	if err != nil {
		return err
	}
	return w.follow(ctx, run)
}

// started gives the slot of a start back.
func (w *watch) started() {
	if w.starting != nil {
		w.starting()
		w.starting = nil
	}
}

// follow makes run the agent that is watched.
func (w *watch) follow(ctx context.Context, run agent.Run) error {
	w.run = run
	w.state.launched(run.Launch())
	w.cpuAt = w.cpu(ctx)
	w.statuses = startStatuses(ctx, run)
	return nil
}

// closeRun ends the watch of the current launch.
func (w *watch) closeRun() {
	w.started()
	if w.statuses != nil {
		w.statuses.close()
		w.statuses = nil
	}
	if w.run != nil {
		w.run.Close()
	}
}

// relaunch gives an agent that never reached its model another launch in the same sandbox.
func (w *watch) relaunch(ctx context.Context, why string) error {
	n := w.run.Launch().Number + 1
	w.log.WarnContext(ctx, "relaunching the agent", "launch", n, "why", why)
	if err := w.run.Stop(ctx); err != nil {
		return err
	}
	w.closeRun()
	return w.launch(ctx, n)
}

// sample measures the progress of an agent that has not called its model yet.
func (w *watch) sample(ctx context.Context) error {
	if !w.state.noCall() {
		return nil
	}
	if used := w.cpu(ctx); used >= 0 && w.cpuAt >= 0 {
		w.state.sawCPU(time.Now(), used-w.cpuAt, share())
	}
	return ctx.Err()
}

// cpu is the CPU time that the sandbox has used; -1: not known.
func (w *watch) cpu(ctx context.Context) time.Duration {
	use, err := w.job.Sandboxes.Inspect(ctx, w.job.SandboxID)
	if err != nil {
		return -1
	}
	return use.CPU
}
