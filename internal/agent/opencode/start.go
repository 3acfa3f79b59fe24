package opencode

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// servePort is where OpenCode listens inside the sandbox.
const servePort = 4096

func serveArgs() []string {
	return []string{"serve", "--port", strconv.Itoa(servePort), "--hostname", "127.0.0.1", "--print-logs", "--log-level", "INFO"}
}

// ready waits until OpenCode takes requests; a process that has ended is a Status with Done. It reads the announcement in the
// log first, since a request that comes before it may hang for seconds. ctx alone bounds the wait: the watcher of the agent
// decides whether it makes progress.
func (r *run) ready(ctx context.Context) (agent.Status, error) {
	for p := newPauses(); ; {
		st, err := r.box.Status(ctx, r.process())
		if err != nil {
			return agent.Status{}, err
		}
		if !st.Running {
			return agent.Died(ctx, r.box, "opencode", st)
		}
		chunk, err := r.box.Log(ctx, r.process(), "stdout", 0, 4096)
		if err != nil {
			return agent.Status{}, err
		}
		if bytes.Contains(chunk.Data, []byte("server listening on")) && r.healthy(ctx) {
			return agent.Status{}, nil
		}
		if err := p.wait(ctx); err != nil {
			return agent.Status{}, fault.Wrap(fault.Unavailable, err, "opencode does not listen yet")
		}
	}
}

func (r *run) healthy(ctx context.Context) bool {
	var health struct {
		Healthy bool `json:"healthy"`
	}
	return r.api().get(ctx, "/global/health", &health) == nil && health.Healthy
}

// pauses grow from 20 to 250 ms: short while OpenCode starts as fast as it can, longer where the machine is busy.
type pauses struct{ next time.Duration }

func newPauses() *pauses { return &pauses{20 * time.Millisecond} }

func (p *pauses) wait(ctx context.Context) error {
	defer func() { p.next = min(p.next*21/20, 250*time.Millisecond) }()
	return clock.Sleep(ctx, p.next)
}
