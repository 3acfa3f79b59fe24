package activities_test

import (
	"context"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// fakeAgent is an agent whose process runs in a sandbox. The test sets its status.
type fakeAgent struct {
	mu sync.Mutex

	// launches
	starts      []int
	stops       []int
	statusCalls int

	// the first status of a launch
	begin  func(launch int) (agent.Status, error)
	status func(launch, look int) (agent.Status, error)

	// called before it returns its status
	onNext     func(context.Context)
	transcript rollout.Transcript
}

func (c *fakeAgent) Install(context.Context, agent.Env) (string, error) { return "coder 1", nil }

func (c *fakeAgent) Open(ctx context.Context, env agent.Env, job agent.Job) (agent.Run, error) {
	l, err := agent.OpenProcess(ctx, env.Sandbox, job.Launch, func() (wire.Process, error) {
		c.mu.Lock()
		defer c.mu.Unlock()

		c.starts = append(c.starts, job.Launch)

		return wire.Process{Argv: []string{"coder"}}, nil
	})

	return &fakeRun{coder: c, box: env.Sandbox, launch: l}, err
}

func (c *fakeAgent) Attach(ctx context.Context, env agent.Env, _ agent.Job) (agent.Run, error) {
	l, err := agent.AttachProcess(ctx, env.Sandbox)
	return &fakeRun{coder: c, box: env.Sandbox, launch: l}, err
}

type fakeRun struct {
	coder  *fakeAgent
	box    agent.Sandbox
	launch agent.Launch
	begun  bool
}

func (r *fakeRun) Launch() agent.Launch { return r.launch }

func (r *fakeRun) Next(ctx context.Context) (agent.Status, error) {
	c := r.coder
	if c.onNext != nil {
		c.onNext(ctx)
	}

	if !r.begun {
		r.begun = true
		if c.begin != nil {
			return c.begin(r.launch.Number)
		}

		return agent.Status{SessionID: "ses", Ready: true}, nil
	}

	select {
	case <-ctx.Done():
		return agent.Status{}, ctx.Err()
	case <-time.After(time.Millisecond): // limits the rate of statuses, and with it the size of the log
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	c.statusCalls++
	st, err := c.status(r.launch.Number, c.statusCalls)
	st.Ready = true

	return st, err
}

func (r *fakeRun) Transcript(context.Context) (rollout.Transcript, error) {
	return r.coder.transcript, nil
}

func (r *fakeRun) Output(ctx context.Context, limit int) ([]byte, error) {
	return agent.ProcessOutput(ctx, r.box, r.launch.Number, limit)
}

func (r *fakeRun) Stop(ctx context.Context) error {
	r.coder.mu.Lock()
	r.coder.stops = append(r.coder.stops, r.launch.Number)
	r.coder.mu.Unlock()

	return r.box.Kill(ctx, agent.ProcessName(r.launch.Number))
}

func (r *fakeRun) Close() {}
