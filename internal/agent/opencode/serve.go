package opencode

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// servePort is where OpenCode listens inside the sandbox.
const servePort = 4096

func serveArgs() []string {
	return []string{"serve", "--port", strconv.Itoa(servePort), "--hostname", "127.0.0.1", "--print-logs", "--log-level", "INFO"}
}

func begin(ctx context.Context, b box, job agent.Job) (agent.Status, error) {
	dead, err := ready(ctx, b, job)
	if err != nil || dead.Done {
		return dead, err
	}
	id, err := session(ctx, apiOf(b), job)
	if err == nil {
		err = instruct(ctx, apiOf(b), id, job.Instruction)
	}
	if err != nil {
		return excuse(ctx, b, job, err)
	}
	return agent.Status{SessionID: id, LastSign: time.Now()}, nil
}

// startTimeout bounds the wait for OpenCode to listen; a loaded machine takes seconds.
const startTimeout = 90 * time.Second

// ready waits until OpenCode takes requests. It reads the announcement in the log first, since a request that comes before it
// may hang for seconds.
func ready(ctx context.Context, b box, job agent.Job) (agent.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	name := agent.ProcessName(job.Launch)
	for pause := 20 * time.Millisecond; ; pause = min(pause*3/2, 50*time.Millisecond) {
		st, err := b.Status(ctx, name)
		if err != nil {
			return agent.Status{}, err
		}
		if !st.Running {
			return died(ctx, b, st)
		}
		chunk, err := b.Log(ctx, name, "stdout", 0, 4096)
		if err != nil {
			return agent.Status{}, err
		}
		if bytes.Contains(chunk.Data, []byte("server listening on")) && healthy(ctx, b) {
			return agent.Status{}, nil
		}
		if !sleep(ctx, pause) {
			return agent.Status{}, fault.Wrap(fault.Unavailable, ctx.Err(), "opencode did not begin to listen within %s", startTimeout)
		}
	}
}

func healthy(ctx context.Context, b box) bool {
	var health struct {
		Healthy bool `json:"healthy"`
	}
	return apiOf(b).get(ctx, "/global/health", &health) == nil && health.Healthy
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// excuse looks for the reason of a failed request: when the process has ended that is the news, not the error.
func excuse(ctx context.Context, b box, job agent.Job, err error) (agent.Status, error) {
	if !fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
		return agent.Status{}, err
	}
	st, statusErr := b.Status(ctx, agent.ProcessName(job.Launch))
	if statusErr != nil {
		return agent.Status{}, statusErr
	}
	if st.Running {
		return agent.Status{}, err
	}
	return died(ctx, b, st)
}
