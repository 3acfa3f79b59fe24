package activities_test

import (
	"context"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// coder is an agent whose process is a box's, and whose status is what the test says.
type coder struct {
	mu         sync.Mutex
	starts     []int // launches
	stops      []int
	waits      int
	started    func(launch int) (agent.Status, error) // instead of taking the instruction
	status     func(launch, wait int) (agent.Status, error)
	onWait     func(context.Context) // before it tells its status
	transcript rollout.Transcript
}

func (c *coder) Install(context.Context, *sandbox.Sandbox) (string, error) { return "coder 1", nil }

func (c *coder) Start(ctx context.Context, sb *sandbox.Sandbox, job agent.Job) (agent.Status, error) {
	c.mu.Lock()
	c.starts = append(c.starts, job.Launch)
	c.mu.Unlock()
	if _, startErr := sb.Start(ctx, agent.ProcessName(job.Launch), wire.Process{Argv: []string{"coder"}}); startErr != nil {
		return agent.Status{}, startErr
	}
	if c.started != nil {
		return c.started(job.Launch)
	}
	return agent.Status{SessionID: "ses"}, nil
}

func (c *coder) Wait(ctx context.Context, _ *sandbox.Sandbox, job agent.Job, _ time.Duration) (agent.Status, error) {
	if c.onWait != nil {
		c.onWait(ctx)
	}
	if err := ctx.Err(); err != nil {
		return agent.Status{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits++
	return c.status(job.Launch, c.waits)
}

func (c *coder) Transcript(context.Context, *sandbox.Sandbox, agent.Job) (rollout.Transcript, error) {
	return c.transcript, nil
}

func (c *coder) Stop(ctx context.Context, sb *sandbox.Sandbox, job agent.Job) error {
	c.mu.Lock()
	c.stops = append(c.stops, job.Launch)
	c.mu.Unlock()
	return sb.Kill(ctx, agent.ProcessName(job.Launch))
}
