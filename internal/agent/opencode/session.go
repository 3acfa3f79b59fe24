package opencode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
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
// it had worked, everybody takes the older.
func findSession(ctx context.Context, c api) (string, error) {
	var all []sessionInfo
	if err := c.get(ctx, "/session?roots=true", &all); err != nil {
		return "", err
	}
	var found sessionInfo
	for _, s := range all {
		older := s.Time.Created < found.Time.Created || s.Time.Created == found.Time.Created && s.ID < found.ID
		if s.Title == sessionTitle && (found.ID == "" || older) {
			found = s
		}
	}
	return found.ID, nil
}

// session finds the job's session, or makes it.
func session(ctx context.Context, c api, job agent.Job) (string, error) {
	id, err := findSession(ctx, c)
	if err != nil || id != "" {
		return id, err
	}
	if err := c.post(ctx, "/session", map[string]any{"title": sessionTitle, "permission": sessionRules(job.ObeyProject)}, nil); err != nil {
		return "", err
	}
	id, err = findSession(ctx, c)
	if err == nil && id == "" {
		return "", fault.New(fault.Internal, "opencode does not list the session it has just made")
	}
	return id, err
}

// instruct gives the session its instruction, once: it looks before it sends, and what it sends has fixed ids, so that even a
// second copy only overwrites the first. It returns when OpenCode has stored the instruction.
func instruct(ctx context.Context, c api, id, instruction string) error {
	const looks = 100
	for look := range looks {
		given, err := lastMessages(ctx, c, id, 1)
		if err != nil {
			return err
		}
		if len(given) > 0 {
			return nil
		}
		if look%(looks/2) == 0 { // at first, and once more should it have been swallowed
			if err := c.post(ctx, sessionPath(id, "/prompt_async"), prompt(id, instruction), nil); err != nil {
				return err
			}
			continue
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return fault.Wrap(fault.Unavailable, ctx.Err(), "give opencode its instruction")
		}
	}
	return fault.New(fault.Unavailable, "opencode took the instruction but did not store it")
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
