package supervisor

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// open attaches to the running agent, or launches it. An abort before the launch leaves w.run nil.
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

	w.state.observeAttach(time.Now())
	w.resume(ctx)

	return nil
}

// launch starts launch n once the host has a slot for it. It then reads the route's status again, since an
// abort may have come meanwhile.
func (w *watch) launch(ctx context.Context, n int) error {
	release, err := w.acquireStart(ctx, n)
	if err != nil {
		return err
	}

	w.releaseStart = release

	route, err := w.Gateway.Status(ctx, w.job.SandboxID)
	if err := w.onRoute(&gatewayapi.Change{Status: route, Err: err}); err != nil {
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

// endStart releases the slot of a start, if one is held.
func (w *watch) endStart() {
	if w.releaseStart != nil {
		w.releaseStart()
		w.releaseStart = nil
	}
}

// follow starts to watch run.
func (w *watch) follow(ctx context.Context, run agent.Run) error {
	w.run = run
	w.state.observeLaunch(run.Launch())
	w.cpuAt = w.cpu(ctx)
	w.statuses = startStatuses(ctx, run)

	return nil
}

// closeRun ends the watch of the current launch.
func (w *watch) closeRun() {
	w.endStart()

	if w.statuses != nil {
		w.statuses.close()
		w.statuses = nil
	}

	if w.run != nil {
		w.run.Close()
	}
}

// relaunch stops the agent and launches it again in the same sandbox.
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
		w.state.observeCPU(time.Now(), used-w.cpuAt, currentWorkingShare())
	}

	return ctx.Err()
}

// cpu is the CPU time that the sandbox has used; -1 if it cannot be measured.
func (w *watch) cpu(ctx context.Context) time.Duration {
	use, err := w.job.Sandboxes.Inspect(ctx, w.job.SandboxID)
	if err != nil {
		return -1
	}

	return use.CPU
}
