package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// interruptTimeout bounds the polite part of a stop.
const interruptTimeout = 3 * time.Second

func (a *Agent) stop(ctx context.Context, b box, job agent.Job) error {
	name := agent.ProcessName(job.Launch)
	st, err := b.Status(ctx, name)
	if fault.Is(err, fault.NotFound) || err == nil && !st.Running {
		return nil
	}
	if err != nil {
		return err
	}
	polite, cancel := context.WithTimeout(ctx, interruptTimeout)
	defer cancel()
	if err := interrupt(polite, b, job); err != nil {
		a.log.WarnContext(ctx, "opencode did not stop by itself; killing it", "process", name, "err", err)
	}
	return b.Kill(ctx, name)
}

// interrupt aborts the session, which closes the model call at once, and keeps the transcript: OpenCode holds it in memory.
func interrupt(ctx context.Context, b box, job agent.Job) error {
	c := apiOf(b)
	id, err := findSession(ctx, c)
	if err != nil || id == "" {
		return err
	}
	if err := c.post(ctx, sessionPath(id, "/abort"), nil, nil); err != nil {
		return err
	}
	t, err := fetchTranscript(ctx, c, id)
	if err != nil {
		return err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return b.WriteFile(ctx, keptTranscript(job), bytes.NewReader(text), 0o644)
}

// keptTranscript is where Stop leaves the transcript of a launch.
func keptTranscript(job agent.Job) string {
	return fmt.Sprintf("%s/logs/agent/transcript-%d.json", rollout.Home, job.Launch)
}

func transcript(ctx context.Context, b box, job agent.Job) (rollout.Transcript, error) {
	st, err := b.Status(ctx, agent.ProcessName(job.Launch))
	if err != nil {
		return rollout.Transcript{}, err
	}
	if !st.Running {
		return readKept(ctx, b, job)
	}
	id, err := findSession(ctx, apiOf(b))
	if err != nil {
		return rollout.Transcript{}, err
	}
	if id == "" {
		return rollout.Transcript{}, fault.New(fault.NotFound, "opencode has no session yet")
	}
	return fetchTranscript(ctx, apiOf(b), id)
}

func fetchTranscript(ctx context.Context, c api, id string) (rollout.Transcript, error) {
	t := rollout.Transcript{SessionID: id}
	return t, c.get(ctx, sessionPath(id, "/message"), &t.Messages)
}

func readKept(ctx context.Context, b box, job agent.Job) (rollout.Transcript, error) {
	var t rollout.Transcript
	text, err := b.ReadFile(ctx, keptTranscript(job), maxAnswer)
	if err != nil {
		return t, fmt.Errorf("opencode is gone, and so is its session: %w", err)
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return t, fault.Wrap(fault.NotFound, err, "the transcript that was kept is unreadable")
	}
	return t, nil
}
