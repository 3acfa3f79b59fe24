package activities

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
)

const (
	// serviceProcess is the named process in the sandbox of a service.
	serviceProcess = "service"

	// serviceLog is how many bytes of each output stream of a service are kept.
	serviceLog = 8 << 10

	// serviceExcerpt is how many characters of it an error has.
	serviceExcerpt = 600

	// checkPause is the longest pause between two health checks while failures do not count.
	checkPause = 500 * time.Millisecond

	// destroyTimeout bounds the end of sandboxes whose activity was canceled.
	destroyTimeout = time.Minute
)

// startServices creates the services beside the living sandbox main, or finds them, and returns when all are ready. A
// service that does not become ready is a fault.SetupFailed. The caller destroys what was created, also after an error.
//
// purpose is that of the sandbox main.
func (a *Activities) startServices(
	ctx context.Context,
	b Backend,
	main *sandbox.Sandbox,
	s rollout.Sandbox,
	t Target,
	purpose string,
) error {
	if t.Services == "" {
		return nil
	}

	starting, cancel := context.WithTimeoutCause(ctx, rollout.MaxServiceStart, fault.New(
		fault.SetupFailed, "the services were not ready within %s", rollout.MaxServiceStart))
	defer cancel()

	// a health check may take as long as a lease
	release := a.leases.KeepRenewed(starting, main)
	defer release()

	own := labels(t, driver.PurposeService)
	own[driver.LabelBeside] = purpose

	group := &serviceGroup{
		a: a, b: b, main: main.ID(), spec: s, labels: own,
		running: map[string]*sandbox.Sandbox{}, dirs: map[string]string{}, ready: map[string]bool{},
	}
	defer group.release()

	err := group.start(starting)
	if err != nil && ctx.Err() == nil && starting.Err() != nil {
		err = fault.Wrap(fault.SetupFailed, err, "%v", context.Cause(starting))
	}

	return err
}

// endSandbox destroys a sandbox and its services after an error, which it returns, also if ctx has ended.
func (a *Activities) endSandbox(ctx context.Context, b Backend, t Target, id string, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyTimeout)
	defer cancel()

	if left := destroyWithServices(ctx, b, t, id); left != nil {
		// the leases end them
		a.log.WarnContext(ctx, "sandbox not destroyed", "sandbox", id, "error", left)
	}

	return err
}

// destroyWithServices destroys a sandbox and the services beside it.
func destroyWithServices(ctx context.Context, b Backend, t Target, id string) error {
	var errs []error

	for _, service := range t.ServiceIDs(id) {
		errs = append(errs, b.Destroy(ctx, service))
	}

	return errors.Join(append(errs, b.Destroy(ctx, id))...)
}

// serviceGroup are the services beside one sandbox while they start.
type serviceGroup struct {
	a      *Activities
	b      Backend
	main   string
	spec   rollout.Sandbox
	labels map[string]string

	// by name
	running  map[string]*sandbox.Sandbox
	dirs     map[string]string
	ready    map[string]bool
	releases []func()
}

func (g *serviceGroup) release() {
	for _, release := range g.releases {
		release()
	}
}

// start starts each service when those on which it depends are ready.
func (g *serviceGroup) start(ctx context.Context) error {
	byName := map[string]rollout.Service{}
	for _, s := range g.spec.Services {
		byName[s.Name] = s
	}

	ordered := rollout.StartOrder(g.spec.Services)

	for _, s := range ordered {
		for _, name := range s.DependsOn {
			if err := g.await(ctx, byName[name]); err != nil {
				return err
			}
		}

		if err := g.launch(ctx, s); err != nil {
			return fmt.Errorf("service %q: %w", s.Name, err)
		}
	}

	for _, s := range ordered {
		if err := g.await(ctx, s); err != nil {
			return err
		}
	}

	return nil
}

// launch creates the sandbox of a service and starts its program.
func (g *serviceGroup) launch(ctx context.Context, s rollout.Service) error {
	image, err := g.b.Program(ctx, s)
	if err != nil {
		return err
	}

	argv := commandOf(s, image)
	if len(argv) == 0 {
		return fault.New(fault.SetupFailed, "neither the task nor the image %q names a command", s.Image)
	}

	sb, err := g.b.CreateBeside(ctx, g.main, g.spec, s, g.labels)
	if err != nil {
		return err
	}

	if err := sb.Renew(ctx, g.a.o.Lease); err != nil {
		return err
	}

	g.running[s.Name], g.dirs[s.Name] = sb, cmp.Or(s.WorkingDir, image.Dir, "/")
	g.releases = append(g.releases, g.a.leases.KeepRenewed(ctx, sb))

	_, err = sb.Start(ctx, serviceProcess, wire.Process{Argv: argv, Dir: g.dirs[s.Name]})
	if fault.Is(err, fault.Invalid) {
		// the program, or its folder, is not in the image
		err = fault.Wrap(fault.SetupFailed, err, "start %s", text.Head(strings.Join(argv, " "), 200))
	}

	return err
}

// commandOf is the command line of a service. An entrypoint of the task drops the command of the image.
func commandOf(s rollout.Service, image driver.Program) []string {
	switch {
	case len(s.Entrypoint) > 0:
		return slices.Concat(s.Entrypoint, s.Command)
	case len(s.Command) > 0:
		return slices.Concat(image.Entrypoint, s.Command)
	default:
		return slices.Concat(image.Entrypoint, image.Command)
	}
}

// await returns when a service is ready.
func (g *serviceGroup) await(ctx context.Context, s rollout.Service) error {
	if g.ready[s.Name] {
		return nil
	}

	var err error

	switch sb := g.running[s.Name]; {
	case s.Once:
		err = awaitEnd(ctx, sb)
	case s.Healthcheck != nil:
		err = awaitHealth(ctx, sb, s.Healthcheck.Filled(), g.dirs[s.Name])
	default:
		_, err = serviceRuns(ctx, sb)
	}

	g.ready[s.Name] = err == nil

	if err != nil {
		return fmt.Errorf("service %q: %w", s.Name, err)
	}

	return nil
}

// awaitEnd waits until the program has ended with the exit status 0.
func awaitEnd(ctx context.Context, sb *sandbox.Sandbox) error {
	for {
		st, err := sb.Wait(ctx, serviceProcess, rollout.MaxServiceStart)

		switch {
		case err != nil:
			return err
		case st.Running:
			continue
		case st.ExitCode != 0:
			return endedEarly(ctx, sb, st)
		}

		return nil
	}
}

// serviceRuns returns the status of a program that runs; one that has ended is a fault.SetupFailed.
func serviceRuns(ctx context.Context, sb *sandbox.Sandbox) (wire.Status, error) {
	st, err := sb.Status(ctx, serviceProcess)
	if err == nil && !st.Running {
		err = endedEarly(ctx, sb, st)
	}

	return st, err
}

func endedEarly(ctx context.Context, sb *sandbox.Sandbox, st wire.Status) error {
	return fault.New(fault.SetupFailed, "ended with exit status %d%s", st.ExitCode, logExcerpt(ctx, sb, st))
}

// logExcerpt is the end of what a service has written, for an error.
func logExcerpt(ctx context.Context, sb *sandbox.Sandbox, st wire.Status) string {
	written := strings.TrimSpace(serviceOutput(ctx, sb, st))
	if written == "" {
		return "; it has written nothing"
	}

	return "; it has written: " + text.Tail(written, serviceExcerpt)
}

// serviceOutput is the end of the output and of the errors of a service.
func serviceOutput(ctx context.Context, sb *sandbox.Sandbox, st wire.Status) string {
	var all strings.Builder

	for _, stream := range []string{"stdout", "stderr"} {
		data, err := sb.Tail(ctx, st, stream, serviceLog)
		if err != nil {
			fmt.Fprintf(&all, "(%s: %v)\n", stream, err)
		}

		all.WriteString(strings.ToValidUTF8(string(data), "\uFFFD"))
	}

	return all.String()
}

// awaitHealth checks until the check succeeds. Failures count when the start period and the first interval are over,
// as in a container engine, whose first check comes after an interval.
func awaitHealth(ctx context.Context, sb *sandbox.Sandbox, h rollout.Healthcheck, dir string) error {
	patience := seconds(h.StartPeriod) + seconds(h.Interval)

	for failed := 0; ; {
		st, err := serviceRuns(ctx, sb)
		if err != nil {
			return err
		}

		why, err := checkHealth(ctx, sb, h, dir)
		if err != nil || why == "" {
			return err
		}

		pause := seconds(h.Interval)
		if st.Age < patience {
			pause = min(pause, checkPause)
		} else if failed++; failed >= h.Retries {
			return fault.New(fault.SetupFailed, "its health check failed %d times: %s%s", failed, why, logExcerpt(ctx, sb, st))
		}

		if err := clock.Sleep(ctx, pause); err != nil {
			return fmt.Errorf("%w; the last health check: %s%s", err, why, logExcerpt(context.WithoutCancel(ctx), sb, st))
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// checkHealth runs a health check once and returns why it failed; "": it did not.
func checkHealth(ctx context.Context, sb *sandbox.Sandbox, h rollout.Healthcheck, dir string) (why string, err error) {
	id := "health-" + rand.Text()

	res, err := sb.Exec(ctx, id, wire.Exec{Process: wire.Process{
		Argv: h.Test, Dir: dir, TimeoutMillis: seconds(h.Timeout).Milliseconds(), KeepBytes: serviceExcerpt,
	}})
	if fault.Is(err, fault.Invalid) {
		// there is no such program
		return err.Error(), nil
	}

	if err != nil {
		return "", err
	}

	// else sandboxd keeps the results of all checks
	if err := sb.DeleteExec(ctx, id); err != nil {
		return "", err
	}

	written := strings.TrimSpace(strings.ToValidUTF8(outputOf(res.Stdout)+outputOf(res.Stderr), "\uFFFD"))

	switch {
	case res.TimedOut:
		return fmt.Sprintf("no end within %g s", h.Timeout), nil
	case res.ExitCode != 0:
		return strings.TrimSpace(fmt.Sprintf("exit status %d %s", res.ExitCode, written)), nil
	}

	return "", nil
}

func outputOf(o wire.Output) string { return string(o.Head) + string(o.Tail) }

// keepServices renews the leases of the services beside a sandbox until release is called. A service whose sandbox is
// lost is a fault.SandboxLost, unless the memory of that sandbox ran out, which is an end of the service.
func (a *Activities) keepServices(ctx context.Context, b Backend, t Target, main string) (release func(), err error) {
	var releases []func()

	release = func() {
		for _, f := range releases {
			f()
		}
	}

	for i, id := range t.ServiceIDs(main) {
		_, done, err := a.leases.Attach(ctx, b.Backend, id)

		switch err = b.OfMemory(ctx, id, err); {
		case err == nil:
			releases = append(releases, done)
		case fault.Is(err, fault.OutOfMemory):
		default:
			release()
			return nil, serviceError(strings.Split(t.Services, ",")[i], err)
		}
	}

	return release, nil
}

// recordServices stores how the services of the agent's sandbox are. A service that ended does not end the rollout: the
// agent may have ended it. One whose sandbox is lost is a fault.SandboxLost.
func (a *Activities) recordServices(ctx context.Context, t Target) error {
	if t.Services == "" {
		return nil
	}

	b, err := a.backend(t)
	if err != nil {
		return err
	}

	var (
		states []rollout.ServiceState
		lost   []error
	)

	for i, name := range strings.Split(t.Services, ",") {
		id := t.ServiceIDs(t.SandboxID())[i]

		state, err := serviceState(ctx, b, name, id)
		if err = b.OfMemory(ctx, id, err); fault.Is(err, fault.OutOfMemory) {
			state.Log, err = err.Error(), nil
		}

		if err != nil {
			lost = append(lost, serviceError(name, err))
			state.Log = err.Error()
		}

		states = append(states, state)
	}

	key := store.AttemptKey(t.RolloutID, t.Attempt, store.Services)
	if err := a.o.Store.PutJSON(ctx, key, states); err != nil {
		return err
	}

	return errors.Join(lost...)
}

func serviceState(ctx context.Context, b Backend, name, id string) (rollout.ServiceState, error) {
	state := rollout.ServiceState{Name: name, ExitCode: -1}

	sb, err := b.Attach(ctx, id)
	if err != nil {
		return state, err
	}

	st, err := sb.Status(ctx, serviceProcess)
	if err != nil {
		return state, err
	}

	state.Running, state.Log = st.Running, serviceOutput(ctx, sb, st)
	if !st.Running {
		state.ExitCode = st.ExitCode
	}

	return state, nil
}

// collectServices stores how the services are, unless RunAgent has.
func (a *Activities) collectServices(ctx context.Context, in CollectInput) error {
	if in.Services == "" {
		return nil
	}

	r, err := a.o.Store.Reader(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.Services))
	if err == nil {
		return r.Close()
	}

	if !fault.Is(err, fault.NotFound) {
		return err
	}

	return a.recordServices(ctx, in.Target)
}
