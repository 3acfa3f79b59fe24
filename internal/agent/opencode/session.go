package opencode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

// sessionTitle identifies our session of a step. A given title also saves the model call that generates one.
func sessionTitle(step int) string {
	if step == 0 {
		return "rollout"
	}

	return fmt.Sprintf("rollout step %d", step+1)
}

type sessionInfo struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Time  struct {
		Created int64 `json:"created"`
	} `json:"time"`
}

// findSession returns the id of the job's session, or "". If a retried request has created two, every
// worker takes the older one.
func findSession(ctx context.Context, c api, title string) (string, error) {
	var found, s sessionInfo

	err := c.each(ctx, "/session?roots=true", replyLimits(), &s, func() error {
		older := s.Time.Created < found.Time.Created || s.Time.Created == found.Time.Created && s.ID < found.ID
		if s.Title == title && (found.ID == "" || older) {
			found = s
		}

		s = sessionInfo{}

		return nil
	})

	return found.ID, err
}

// instruct finds or creates the job's session, sends the instruction once, and returns the session's id
// when OpenCode has stored the instruction. It checks before it sends, and the instruction has fixed ids,
// so a second copy only overwrites the first. Only ctx bounds it.
//
// In a process that was started for this run the first call skips the checks. Later calls check, because a
// failed request may have succeeded in OpenCode.
func (r *run) instruct(ctx context.Context) (string, error) {
	c, fresh := r.api(), r.fresh
	r.fresh = false

	id, err := "", error(nil)
	if !fresh {
		id, err = findSession(ctx, c, sessionTitle(r.job.Step))
	}

	if err == nil && id == "" {
		err = r.checkExtensions(ctx)
	}

	if err == nil && id == "" {
		id, err = makeSession(ctx, c, r.job, fresh)
	}

	if err != nil {
		return "", err
	}
	// checks after which the prompt is sent again, in case it was lost
	const sendEvery = 50

	p := newPauses()

	for check := 0; ; check++ {
		if check > 0 || !fresh {
			last, err := lastMessage(ctx, c, id)
			if err != nil || last.Role != "" {
				return id, err
			}
		}

		if check%sendEvery == 0 {
			if err := c.post(ctx, sessionPath(id, "/prompt_async"), prompt(id, r.job.Instruction)); err != nil {
				return "", err
			}

			continue
		}

		if err := p.wait(ctx); err != nil {
			return "", fault.Wrap(fault.Unavailable, err, "opencode accepted the instruction but has not stored it")
		}
	}
}

// makeSession creates the job's session. If an earlier request may also have created one, it returns the older session.
func makeSession(ctx context.Context, c api, job agent.Job, first bool) (string, error) {
	title := sessionTitle(job.Step)

	id, err := c.newSession(ctx, map[string]any{"title": title, "permission": sessionRules(job)})
	if err == nil && !first {
		id, err = findSession(ctx, c, title)
	}

	if err == nil && id == "" {
		return "", fault.New(fault.AgentFailed, "opencode returned no id for the new session")
	}

	return id, err
}

// newSession creates a session and returns its id.
func (c api) newSession(ctx context.Context, body map[string]any) (string, error) {
	var s sessionInfo

	err := c.do(ctx, http.MethodPost, "/session", body, func(body io.Reader) error {
		return json.NewDecoder(jsoninput.NewReader(body, replyLimits())).Decode(&s)
	})

	return s.ID, err
}

// prompt is the body of the only prompt. OpenCode sorts a session's messages by id and keeps answering
// while the last user message sorts behind the last answer. The zeros sort ours before all messages of
// OpenCode. The rest of the id must differ between sessions.
func prompt(sessionID, instruction string) map[string]any {
	sum := sha256.Sum256([]byte(sessionID))
	id := "00000000000000" + hex.EncodeToString(sum[:6])

	return map[string]any{
		"messageID": "msg_" + id,
		"model":     map[string]string{"providerID": providerID, "modelID": modelID},
		"parts":     []any{map[string]string{"id": "prt_" + id, "type": "text", "text": instruction}},
	}
}
