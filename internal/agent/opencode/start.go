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
	return []string{
		"serve", "--port", strconv.Itoa(servePort), "--hostname", "127.0.0.1", "--print-logs", "--log-level",
		"INFO",
	}
}

const (
	// maxAnnounced bounds the log up to OpenCode's message that it listens, in bytes.
	maxAnnounced = 4096
	// logWait bounds one wait for more of the log.
	logWait = 10 * time.Second
)

// ready waits until OpenCode takes requests; a process that has ended is a Status with Done. It first waits
// for the message in the log, because an earlier request may hang for seconds. Only ctx bounds the wait:
// the watcher decides whether the agent makes progress.
func (r *run) ready(ctx context.Context) (agent.Status, error) {
	var log []byte

	announced := false
	for p := newPauses(); ; {
		if !announced {
			chunk, err := r.box.WaitLog(ctx, r.process(), "stdout", int64(len(log)), maxAnnounced-len(log), logWait)
			if err != nil {
				return agent.Status{}, err
			}

			log = append(log, chunk.Data...)
			if announced = bytes.Contains(log, []byte("server listening on")); !announced && len(chunk.Data) > 0 {
				continue
			}
		}

		if announced && r.healthy(ctx) {
			return agent.Status{}, nil
		}

		st, err := r.box.Status(ctx, r.process())
		if err != nil {
			return agent.Status{}, err
		}

		if !st.Running {
			return agent.Died(ctx, r.box, "opencode", st)
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

// pauses grow from 20 to 250 ms, so that a start on a busy machine costs few requests.
type pauses struct{ next time.Duration }

func newPauses() *pauses { return &pauses{20 * time.Millisecond} }

func (p *pauses) wait(ctx context.Context) error {
	defer func() { p.next = min(p.next*21/20, 250*time.Millisecond) }()
	return clock.Sleep(ctx, p.next)
}
