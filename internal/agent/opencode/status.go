package opencode

import (
	"context"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// lookTimeout bounds one look, because the server may hang.
const lookTimeout = 3 * time.Second

// endGrace is how long a process that gave a wrong answer may take to end before the answer counts as its own.
const endGrace = time.Second

// readStatus returns the state of the session. The agent is done only if its process still runs after it reported
// so: another process that kills it and answers in its place has not completed the task.
func (r *run) readStatus(ctx context.Context) (agent.Status, error) {
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()

	st, err := r.query(bounded)
	if err != nil {
		return r.explain(ctx, st, err)
	}

	if !st.Done {
		return st, nil
	}

	process, err := r.box.Status(ctx, r.process())
	if err != nil || process.Running {
		return st, err
	}

	return agent.Died(ctx, r.box, "opencode", process)
}

// explain turns a failed request into a status. If the process has ended, that is the reason. A server that
// does not answer is busy or hangs; the watcher decides by the signs of life. A wrong answer is a failure
// of the agent.
func (r *run) explain(ctx context.Context, st agent.Status, err error) (agent.Status, error) {
	if ctx.Err() != nil || fault.Is(err, fault.SandboxLost) || fault.Is(err, fault.SetupFailed) {
		return st, err
	}

	wait := time.Duration(0)
	if fault.Is(err, fault.AgentFailed) {
		wait = endGrace
	}

	process, statusErr := r.box.Wait(ctx, r.process(), wait)
	switch {
	case statusErr != nil:
		return st, statusErr
	case !process.Running:
		return agent.Died(ctx, r.box, "opencode", process)
	case fault.Is(err, fault.Unavailable):
		return st, nil
	default:
		st.Done, st.ExitCode, st.Error = true, 1, err.Error()
		return st, nil
	}
}

// query reads the state of the session from the server. The work is over when the session is idle and has a
// settled answer. Idle alone is not enough: a session is also idle for up to a second after its prompt.
func (r *run) query(ctx context.Context) (agent.Status, error) {
	id, c := *r.session.Load(), r.api()

	st := agent.Status{SessionID: id, Ready: true}
	for range 5 {
		busy, err := isBusy(ctx, c, id)
		if err != nil || busy {
			return st, err
		}

		last, err := lastMessage(ctx, c, id)
		if err != nil || last.Role != "assistant" {
			return st, err
		}

		st.LastSign = last.lastChange()
		if last.settled() {
			return outcome(st, last), nil
		}
		// Idle with an unsettled answer: the state changed between the two requests. Query again.
		if clock.Sleep(ctx, 100*time.Millisecond) != nil {
			return st, nil
		}
	}

	st.Done, st.ExitCode, st.Error = true, 1, "opencode stopped in the middle of an answer"

	return st, nil
}

// isBusy reports whether a session works or waits to retry. OpenCode lists only such sessions.
func isBusy(ctx context.Context, c api, id string) (bool, error) {
	var sessions map[string]struct {
		Type string `json:"type"`
	}

	err := c.get(ctx, "/session/status", &sessions)
	at, listed := sessions[id]

	return listed && at.Type != "idle", err
}

// lastMessage returns the newest message of a session without its parts; zero if there is none.
func lastMessage(ctx context.Context, c api, id string) (messageInfo, error) {
	var (
		m struct {
			Info messageInfo `json:"info"`
		}
		last messageInfo
	)

	err := c.each(ctx, sessionPath(id, "/message?limit=1"), lookLimits(), &m, func() error {
		last, m.Info = m.Info, messageInfo{}
		return nil
	})

	return last, err
}

func outcome(st agent.Status, last messageInfo) agent.Status {
	st.Done = true
	if last.failed() {
		st.ExitCode, st.Error = 1, errorText(last.Error)
	}

	return st
}

func sessionPath(id, rest string) string { return fmt.Sprintf("/session/%s%s", id, rest) }
