package interactive

import (
	"context"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/episode/toolservice"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// statusEvery is the longest wait of Next. It then checks that the sandbox is there.
const statusEvery = 10 * time.Second

// run implements agent.Run. episode is nil if the agent is not going to run.
type run struct {
	env     agent.Env
	job     agent.Job
	launch  agent.Launch
	episode *toolservice.Episode
	idle    time.Duration

	// the first status was returned
	ready bool

	// total of Env.Suspended that was seen last
	suspended time.Duration

	// when it was seen to grow
	resumed time.Time
}

var _ agent.Run = (*run)(nil)

// newRun lets the episode of a marked launch take calls.
func newRun(env agent.Env, job agent.Job, launch agent.Launch) *run {
	if env.Episode != nil {
		env.Episode.Accept()
	}

	return &run{env: env, job: job, launch: launch, episode: env.Episode, idle: job.Episode.Filled().Idle}
}

// Launch implements agent.Run.
func (r *run) Launch() agent.Launch { return r.launch }

// Next implements agent.Run.
func (r *run) Next(ctx context.Context) (agent.Status, error) {
	wait := time.Duration(0)
	if r.ready {
		wait = min(statusEvery, r.remainingIdle())
	}

	r.ready = true

	timer := time.NewTimer(wait)
	defer timer.Stop()

	select {
	case <-r.episode.Over():
		return r.endedStatus(), nil
	case <-ctx.Done():
		return agent.Status{}, fault.Wrap(fault.Unavailable, ctx.Err(), "wait for the episode")
	case <-timer.C:
	}

	select {
	case <-r.episode.Over():
		return r.endedStatus(), nil
	default:
	}

	if r.remainingIdle() <= 0 {
		r.episode.End(fmt.Sprintf("no call came for %s", r.idle))
		return r.endedStatus(), nil
	}

	_, err := r.env.Sandbox.Status(ctx, agent.ProcessName(r.launch.Number))
	// idle time has its own limit
	return agent.Status{Ready: true, LastSign: time.Now()}, err
}

// remainingIdle is the time until the episode has been idle for too long. A suspended worker takes no calls, so the
// idle time starts again after it.
func (r *run) remainingIdle() time.Duration {
	since := r.episode.IdleSince()
	if since.IsZero() {
		return r.idle
	}

	if now, total := r.env.Suspended.Read(); total != r.suspended {
		r.suspended, r.resumed = total, now
	}

	return max(time.Until(since.Add(r.idle)), time.Until(r.resumed.Add(r.idle)))
}

// endedStatus is the status of an episode that has ended.
func (r *run) endedStatus() agent.Status {
	why, submitted := r.episode.Ended()
	st := agent.Status{Ready: true, Done: true, LastSign: time.Now()}

	switch {
	case submitted:
	case r.usedUp():
		st.ExitCode, st.Error = 1, why
	default:
		st.ExitCode, st.Error, st.Left = 1, why, true
	}

	return st
}

// usedUp reports whether the maximum of calls is reached.
func (r *run) usedUp() bool {
	most := r.job.Episode.Filled().MaxSteps
	return most > 0 && r.episode.Status().Steps >= most
}

// Transcript implements agent.Run.
func (r *run) Transcript(context.Context) (rollout.Transcript, error) {
	return transcriptOf(r.job.Instruction, r.launch.First, r.episode)
}

// Output implements agent.Run: the episode writes no streams.
func (r *run) Output(ctx context.Context, limit int) ([]byte, error) {
	return agent.ProcessOutput(ctx, r.env.Sandbox, r.launch.Number, limit)
}

// Stop implements agent.Run.
func (r *run) Stop(context.Context) error {
	if r.episode != nil {
		r.episode.End("the rollout was ended")
	}

	return nil
}

// Close implements agent.Run.
func (r *run) Close() {}
