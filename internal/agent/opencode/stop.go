package opencode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// interruptTimeout bounds the requests to OpenCode during a stop. On a busy host it needs seconds for an answer, and
// without one the transcript is lost.
const interruptTimeout = 10 * time.Second

// Stop implements agent.Run.
func (r *run) Stop(ctx context.Context) error {
	st, err := r.box.Status(ctx, r.process())
	if err != nil || !st.Running {
		return err
	}

	bounded, cancel := context.WithTimeout(ctx, interruptTimeout)
	defer cancel()

	if err := r.interrupt(bounded); err != nil {
		r.agent.log.WarnContext(ctx, "opencode did not stop by itself; killing it", "process", r.process(), "err", err)
	}

	return r.box.Kill(ctx, r.process())
}

// interrupt aborts the session, which closes the model call at once, and saves the transcript, which
// OpenCode keeps only in memory.
func (r *run) interrupt(ctx context.Context) error {
	c := r.api()

	id, err := r.sessionID(ctx)
	if err != nil || id == "" {
		return err
	}

	if err := c.post(ctx, sessionPath(id, "/abort"), nil); err != nil {
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

	return r.box.WriteFile(ctx, r.keptTranscript(), bytes.NewReader(text), 0o644)
}

// keptTranscript is the path in the sandbox where Stop saves the transcript of a launch.
func (r *run) keptTranscript() string {
	return fmt.Sprintf("%s/logs/agent/transcript-%d.json", rollout.Home, r.launch.Number)
}

// fetchTranscript reads the session's messages from the first on, up to transcriptLimits. A longer session
// is cut after a whole message.
func fetchTranscript(ctx context.Context, c api, id string) (rollout.Transcript, error) {
	t := rollout.Transcript{SessionID: id}

	var m json.RawMessage

	err := c.each(ctx, sessionPath(id, "/message"), transcriptLimits(), &m, func() error {
		t.Messages = append(t.Messages, m)
		m = nil

		if len(t.Messages) == maxMessages {
			return errEnough
		}

		return nil
	})

	var limit *jsoninput.Error
	if errors.As(err, &limit) {
		err = nil
	}

	return t, err
}

func (r *run) readKept(ctx context.Context) (rollout.Transcript, error) {
	var t rollout.Transcript

	limits := transcriptLimits()

	text, err := r.box.ReadFile(ctx, r.keptTranscript(), limits.Bytes)
	if err != nil {
		return t, fmt.Errorf("read the transcript that a stop kept: %w", err)
	}

	if err := json.NewDecoder(jsoninput.NewReader(bytes.NewReader(text), limits)).Decode(&t); err != nil {
		return rollout.Transcript{}, fault.Wrap(fault.NotFound, err, "the saved transcript is unreadable")
	}

	return t, nil
}
