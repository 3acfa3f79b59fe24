package agent

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// MaxLaunches bounds the launches of an agent in one sandbox.
const MaxLaunches = 3

// ProcessName is the name of a launch's process, for agents that are a process in the sandbox.
func ProcessName(launch int) string { return "agent-" + strconv.Itoa(launch) }

// Processes matches the process names of all launches, see gatewayapi.Route.Origin.
const Processes = "agent-*"

// OpenProcess finds the process of a launch, or starts the process that command returns. launch is as in
// Job.Launch. The launch of a warm agent begins now; see Warmer.
func OpenProcess(ctx context.Context, sb Sandbox, launch int, command func() (wire.Process, error)) (Launch, error) {
	if launch == 0 {
		latest, err := latestLaunch(ctx, sb)
		if err != nil {
			return Launch{}, err
		}

		launch = max(latest, 1)
	}

	_, err := sb.Status(ctx, ProcessName(launch))
	if fault.Is(err, fault.NotFound) {
		return startProcess(ctx, sb, launch, command)
	}

	if err == nil && launch == 1 {
		err = beginJob(ctx, sb)
	}

	if err != nil {
		return Launch{}, err
	}

	return knownLaunch(ctx, sb, launch)
}

// OpenMark is OpenProcess for an agent that runs on the host: its process in the sandbox only marks the
// launch. name is the agent's, for errors.
func OpenMark(ctx context.Context, sb Sandbox, launch int, name string) (Launch, error) {
	l, err := OpenProcess(ctx, sb, launch, func() (wire.Process, error) {
		return wire.Process{Argv: []string{"/bin/sh", "-c", ":"}, Dir: "/"}, nil
	})

	return l, fault.Wrap(fault.KindOf(err), err, "mark the launch of %s (its tools need /bin/sh in the image)", name)
}

func startProcess(ctx context.Context, sb Sandbox, launch int, command func() (wire.Process, error)) (Launch, error) {
	p, err := command()
	if err != nil {
		return Launch{}, err
	}

	st, err := sb.Start(ctx, ProcessName(launch), p)
	if err != nil {
		return Launch{}, err
	}

	if launch > 1 {
		return knownLaunch(ctx, sb, launch)
	}

	began := time.Now().Add(-st.Age)

	return Launch{Number: 1, Began: began, First: began}, nil
}

// AttachProcess finds the process of the newest launch; fault.NotFound if there is none, or if it is a warm
// agent without a job.
func AttachProcess(ctx context.Context, sb Sandbox) (Launch, error) {
	latest, err := latestLaunch(ctx, sb)
	if err != nil {
		return Launch{}, err
	}

	var w warmState
	if latest > 0 {
		w, err = warmStateOf(ctx, sb)
	}

	if err != nil {
		return Launch{}, err
	}

	if latest == 0 || latest == 1 && w.waits() {
		return Launch{}, fault.New(fault.NotFound, "the agent was never started in this sandbox")
	}

	return launchOf(ctx, sb, w, latest)
}

// latestLaunch is the number of the newest launch; 0 if there was none.
func latestLaunch(ctx context.Context, sb Sandbox) (int, error) {
	for n := 1; n <= MaxLaunches; n++ {
		_, err := sb.Status(ctx, ProcessName(n))
		if fault.Is(err, fault.NotFound) {
			return n - 1, nil
		}

		if err != nil {
			return 0, err
		}
	}

	return MaxLaunches, nil
}

// End ends the processes of all launches that still run, with their sessions and descendants. What an ended one has
// left goes on, and so does what a running one has detached.
func End(ctx context.Context, sb Sandbox) error {
	for n := 1; n <= MaxLaunches; n++ {
		st, err := sb.Status(ctx, ProcessName(n))
		if fault.Is(err, fault.NotFound) {
			return nil
		}

		if err == nil && st.Running {
			err = sb.Kill(ctx, ProcessName(n))
		}

		if err != nil {
			return err
		}
	}

	return nil
}

// knownLaunch returns a launch whose process exists.
func knownLaunch(ctx context.Context, sb Sandbox, number int) (Launch, error) {
	w, err := warmStateOf(ctx, sb)
	if err != nil {
		return Launch{}, err
	}

	return launchOf(ctx, sb, w, number)
}

// launchOf computes start times from ages: the sandbox's clock may be set while a process runs.
func launchOf(ctx context.Context, sb Sandbox, w warmState, number int) (Launch, error) {
	first, err := w.began, error(nil)
	if first.IsZero() {
		first, err = began(ctx, sb, 1)
	}

	if err != nil || number == 1 {
		return Launch{Number: number, Began: first, First: first}, err
	}

	this, err := began(ctx, sb, number)
	// reading the first age took longer than the time between the launches
	if first.After(this) {
		first = this
	}

	return Launch{Number: number, Began: this, First: first}, err
}

func began(ctx context.Context, sb Sandbox, launch int) (time.Time, error) {
	st, err := sb.Status(ctx, ProcessName(launch))
	return time.Now().Add(-st.Age), fault.Wrap(fault.KindOf(err), err, "launch %d of the agent", launch)
}

// ProcessOutput is Run.Output for agents that are a process in the sandbox: stdout, then stderr, of each
// launch up to last.
func ProcessOutput(ctx context.Context, sb Sandbox, last, limit int) ([]byte, error) {
	var text []byte

	for n := 1; n <= last; n++ {
		st, err := sb.Status(ctx, ProcessName(n))
		if err != nil {
			return nil, err
		}

		for _, stream := range []string{"stdout", "stderr"} {
			part, err := sb.Tail(ctx, st, stream, limit)
			if err != nil {
				return nil, err
			}

			text = append(text, part...)
		}
	}

	return text, nil
}

// maxStderr bounds the end of a process's stderr that Died quotes, in bytes.
const maxStderr = 2000

// endOf is when a process ended, by this process's clock. It is computed from ages: the sandbox's clock may
// be set while a process runs.
func endOf(st wire.Status) time.Time { return time.Now().Add(st.Ran - st.Age) }

// Died is the status of an agent whose process ended unexpectedly. name is the agent's.
func Died(ctx context.Context, sb Sandbox, name string, st wire.Status) (Status, error) {
	text, err := sb.Tail(ctx, st, "stderr", maxStderr)
	if err != nil {
		return Status{}, err
	}

	how := fmt.Sprintf("%s exited with code %d", name, st.ExitCode)
	if st.Signal != "" {
		how = fmt.Sprintf("%s was killed by signal %s", name, st.Signal)
	}

	if text := strings.TrimSpace(string(text)); text != "" {
		how += "; its stderr ends with: " + text
	}

	code := st.ExitCode
	if code == 0 {
		// 0 would mean that there is an answer
		code = 1
	}

	return Status{Done: true, ExitCode: code, Error: how, Ended: endOf(st)}, nil
}
