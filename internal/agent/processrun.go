package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// waitTime is how long Next waits for the end of a running process.
const waitTime = 10 * time.Second

// ProcessRun is the Run of an agent whose process ends when its work ends. It is ready as soon as the process runs.
type ProcessRun struct {
	ProcessRunOptions
	launch Launch

	// Next was called
	started bool
	last    Status

	// bytes that the process had written at the latest status
	size int64
}

// ProcessRunOptions configure a ProcessRun.
type ProcessRunOptions struct {
	// name of the agent, for messages
	Name    string
	Sandbox Sandbox
	// AlwaysAlive counts a running process as a sign of life. Without it only output counts.
	AlwaysAlive bool
	// Check inspects a process that ended with exit code 0 and returns why it failed, "" if it did not; nil: no check.
	Check func(ctx context.Context, st wire.Status) (failure string, err error)
	// Messages reads the transcript; nil: it is made from stdout, see OutputMessages.
	Messages func(ctx context.Context, launch int) ([]json.RawMessage, error)
}

var _ Run = (*ProcessRun)(nil)

// NewProcessRun makes the Run of a launch that OpenProcess or AttachProcess returned.
func NewProcessRun(o ProcessRunOptions, l Launch) *ProcessRun {
	return &ProcessRun{ProcessRunOptions: o, launch: l}
}

// Launch implements Run.
func (r *ProcessRun) Launch() Launch { return r.launch }

func (r *ProcessRun) process() string { return ProcessName(r.launch.Number) }

// Next implements Run.
func (r *ProcessRun) Next(ctx context.Context) (Status, error) {
	if r.last.Done {
		return r.last, nil
	}

	wait := waitTime
	if !r.started {
		wait = 0
	}

	st, err := r.Sandbox.Wait(ctx, r.process(), wait)
	if err != nil {
		return r.last, err
	}

	r.started = true
	if !st.Running {
		r.last, err = r.endedStatus(ctx, st)
		return r.last, err
	}

	r.last.Ready = true
	if size := st.StdoutSize + st.StderrSize; r.AlwaysAlive || size != r.size {
		r.last.LastSign, r.size = time.Now(), size
	}

	return r.last, nil
}

// endedStatus is the status of a process that has ended.
func (r *ProcessRun) endedStatus(ctx context.Context, st wire.Status) (Status, error) {
	if st.ExitCode != 0 || st.Signal != "" {
		return Died(ctx, r.Sandbox, r.Name, st)
	}

	done := Status{Ready: true, Done: true, Ended: endOf(st)}
	if r.Check == nil {
		return done, nil
	}

	why, err := r.Check(ctx, st)
	if err != nil {
		return Status{}, err
	}

	if why != "" {
		done.ExitCode, done.Error = 1, why
	}

	return done, nil
}

// Transcript implements Run.
func (r *ProcessRun) Transcript(ctx context.Context) (rollout.Transcript, error) {
	read := r.Messages
	if read == nil {
		read = func(ctx context.Context, launch int) ([]json.RawMessage, error) {
			st, err := r.Sandbox.Status(ctx, ProcessName(launch))
			if err != nil {
				return nil, err
			}

			out, err := r.Sandbox.Tail(ctx, st, "stdout", maxTranscript)

			return OutputMessages(out), err
		}
	}

	messages, err := read(ctx, r.launch.Number)
	if err != nil {
		return rollout.Transcript{}, err
	}

	if len(messages) == 0 {
		return rollout.Transcript{}, fault.New(fault.NotFound, "%s has written nothing yet", r.Name)
	}

	return rollout.Transcript{Messages: messages}, nil
}

// Output implements Run.
func (r *ProcessRun) Output(ctx context.Context, limit int) ([]byte, error) {
	return ProcessOutput(ctx, r.Sandbox, r.launch.Number, limit)
}

// Stop implements Run.
func (r *ProcessRun) Stop(ctx context.Context) error {
	st, err := r.Sandbox.Status(ctx, r.process())
	if err != nil || !st.Running {
		return err
	}

	return r.Sandbox.Kill(ctx, r.process())
}

// Close implements Run.
func (r *ProcessRun) Close() {}
