package opencode

import (
	"context"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// lastMessages returns the newest n messages of a session, oldest first.
func lastMessages(ctx context.Context, c api, id string, n int) ([]message, error) {
	var all []message
	return all, c.get(ctx, sessionPath(id, fmt.Sprintf("/message?limit=%d", n)), &all)
}

// lookTimeout bounds one look at a server that may be wedged, so that its watchers are not held up.
const lookTimeout = 3 * time.Second

// look tells how the launch stands.
func look(ctx context.Context, b box, job agent.Job) (agent.Status, error) {
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	st, err := ask(bounded, apiOf(b))
	if err == nil {
		return st, nil
	}
	st, err = excuse(ctx, b, job, err)
	if fault.Is(err, fault.Unavailable) && ctx.Err() == nil {
		// It runs but does not answer: too busy, or wedged. Whoever watches its signs of life will tell.
		return agent.Status{}, nil
	}
	return st, err
}

// ask asks a server that runs. The work is over when the session is idle and holds a settled answer. Idle alone is not enough:
// a session is idle as well for up to a second after it got its prompt.
func ask(ctx context.Context, c api) (agent.Status, error) {
	id, err := findSession(ctx, c)
	if err != nil || id == "" {
		return agent.Status{}, err
	}
	st := agent.Status{SessionID: id}
	for range 5 {
		busy, err := isBusy(ctx, c, id)
		if err != nil || busy {
			return st, err
		}
		last, err := lastMessages(ctx, c, id, 1)
		if err != nil || len(last) == 0 || last[0].Info.Role != "assistant" {
			return st, err
		}
		st.LastSign = last[0].lastSign()
		if last[0].settled() {
			return verdict(st, &last[0]), nil
		}
		// Idle with an answer that is still open: the state changed between the two requests. Look again.
		if !sleep(ctx, 100*time.Millisecond) {
			return st, nil
		}
	}
	st.Done, st.ExitCode, st.Error = true, 1, "opencode stopped in the middle of an answer"
	return st, nil
}

// isBusy: OpenCode lists only sessions that are at work or waiting to try again.
func isBusy(ctx context.Context, c api, id string) (bool, error) {
	var sessions map[string]struct {
		Type string `json:"type"`
	}
	err := c.get(ctx, "/session/status", &sessions)
	at, listed := sessions[id]
	return listed && at.Type != "idle", err
}

func verdict(st agent.Status, last *message) agent.Status {
	st.Done = true
	if last.failed() {
		st.ExitCode, st.Error = 1, errorText(last.Info.Error)
	}
	return st
}
