package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// runMode runs `opencode run` once. The prompt goes in by stdin: as an argument OpenCode would put it into quotes.
type runMode struct{}

func (runMode) argv(binary string) []string {
	return []string{binary, "run", "--format", "json", "--title", sessionTitle, "--auto", "--print-logs", "--log-level", "INFO"}
}

func (runMode) stdin(job agent.Job) []byte { return []byte(job.Instruction) }

func (m runMode) begin(ctx context.Context, b box, job agent.Job) (agent.Status, error) {
	return m.wait(ctx, b, job, 0)
}

func (m runMode) wait(ctx context.Context, b box, job agent.Job, atMost time.Duration) (agent.Status, error) {
	ps, err := b.Wait(ctx, agent.ProcessName(job.Launch), atMost)
	if err != nil {
		return agent.Status{}, err
	}
	recent, err := b.Tail(ctx, ps.Name, "stdout", 256<<10)
	if err != nil {
		return agent.Status{}, err
	}
	st := agent.Status{LastSign: ps.StartedAt}
	var broke string
	for line := range bytes.Lines(recent) {
		var e runEvent
		if json.Unmarshal(line, &e) != nil {
			continue // the tail may begin in the middle of a line
		}
		st.SessionID, st.LastSign = e.SessionID, time.UnixMilli(e.Timestamp)
		if e.Type == "error" {
			broke = errorText(e.Error)
		}
	}
	if ps.Running {
		return st, nil
	}
	return runVerdict(ctx, b, ps, st, broke)
}

func runVerdict(ctx context.Context, b box, ps wire.Status, st agent.Status, broke string) (agent.Status, error) {
	st.Done, st.ExitCode = true, ps.ExitCode
	if ps.ExitCode == 0 {
		return st, nil
	}
	if st.Error = broke; broke == "" {
		dead, err := died(ctx, b, ps)
		if err != nil {
			return agent.Status{}, err
		}
		st.Error = dead.Error
	}
	return st, nil
}

func (runMode) transcript(ctx context.Context, b box, job agent.Job) (rollout.Transcript, error) {
	var out []byte
	for offset := int64(0); ; {
		chunk, err := b.Log(ctx, agent.ProcessName(job.Launch), "stdout", offset, 1<<20)
		if err != nil {
			return rollout.Transcript{}, err
		}
		if chunk.Next-int64(len(chunk.Data)) > offset {
			out = append(out, '\n') // the middle is lost; what follows is no part of the last line
		}
		out = append(out, chunk.Data...)
		if chunk.EOF || len(chunk.Data) == 0 {
			return transcriptOf(out, job.Instruction), nil
		}
		offset = chunk.Next
	}
}

// interrupt does nothing: what run mode knows is in its output already.
func (runMode) interrupt(context.Context, box, agent.Job) error { return nil }
