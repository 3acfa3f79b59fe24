package opencode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/jsonlimit"
)

// sessionTitle marks our session; giving one also saves the call in which the model makes up a title.
const sessionTitle = "rollout"

type sessionInfo struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Time  struct {
		Created int64 `json:"created"`
	} `json:"time"`
}

// findSession returns the id of the job's session, or "". Should there be two, because a request to make one was lost after
// it had worked, every worker takes the older.
func findSession(ctx context.Context, c api) (string, error) {
	var found, s sessionInfo
	err := c.each(ctx, "/session?roots=true", replyLimits(), &s, func() error {
		older := s.Time.Created < found.Time.Created || s.Time.Created == found.Time.Created && s.ID < found.ID
		if s.Title == sessionTitle && (found.ID == "" || older) {
			found = s
		}
		s = sessionInfo{}
		return nil
	})
	return found.ID, err
}

// instruct finds the job's session, or makes it, and gives it its instruction, once: it looks before it sends, and what it
// sends has fixed ids, so that even a second copy only overwrites the first. It returns the session's id when OpenCode has
// stored the instruction. ctx alone bounds it.
//
// In a process that was started for this run there is nothing to look for, once: a request that fails may have worked.
func (r *run) instruct(ctx context.Context) (string, error) {
	c, fresh := r.api(), r.fresh
	r.fresh = false
	id, err := "", error(nil)
	if !fresh {
		id, err = findSession(ctx, c)
	}
	if err == nil && id == "" {
		id, err = makeSession(ctx, c, r.job, fresh)
	}
	if err != nil {
		return "", err
	}
	const sendEvery = 50 // looks: a prompt may have been swallowed
	p := newPauses()
	for look := 0; ; look++ {
		if look > 0 || !fresh {
			last, err := lastMessage(ctx, c, id)
			if err != nil || last.Role != "" {
				return id, err
			}
		}
		if look%sendEvery == 0 {
			if err := c.post(ctx, sessionPath(id, "/prompt_async"), prompt(id, r.job.Instruction)); err != nil {
				return "", err
			}
			continue
		}
		if err := p.wait(ctx); err != nil {
			return "", fault.Wrap(fault.Unavailable, err, "opencode took the instruction but has not stored it")
		}
	}
}

// makeSession makes the job's session. Where it is not the first request to make one, another may have come to work meanwhile.
func makeSession(ctx context.Context, c api, job agent.Job, first bool) (string, error) {
	id, err := c.newSession(ctx, map[string]any{"title": sessionTitle, "permission": sessionRules(job.ObeyProject)})
	if err == nil && !first {
		id, err = findSession(ctx, c)
	}
	if err == nil && id == "" {
		return "", fault.New(fault.AgentFailed, "opencode does not name the session it has just made")
	}
	return id, err
}

// newSession makes a session and returns its id.
func (c api) newSession(ctx context.Context, of map[string]any) (string, error) {
	var s sessionInfo
	err := c.do(ctx, http.MethodPost, "/session", of, func(body io.Reader) error {
		return json.NewDecoder(jsonlimit.NewReader(body, replyLimits())).Decode(&s)
	})
	return s.ID, err
}

// prompt is the body of the one prompt. OpenCode sorts a session's messages by id and answers while the last user message sorts
// behind the last answer: the zeros put ours before all that OpenCode makes. The rest of the id must differ between sessions.
func prompt(sessionID, instruction string) map[string]any {
	sum := sha256.Sum256([]byte(sessionID))
	id := "00000000000000" + hex.EncodeToString(sum[:6])
	return map[string]any{
		"messageID": "msg_" + id,
		"model":     map[string]string{"providerID": providerID, "modelID": modelID},
		"parts":     []any{map[string]string{"id": "prt_" + id, "type": "text", "text": instruction}},
	}
}
