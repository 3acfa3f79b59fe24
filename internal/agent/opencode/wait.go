package opencode

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
)

// slowPoll catches what the event stream missed.
const slowPoll = 5 * time.Second

// wait follows the event stream and asks how things stand when an event says that it is worth it.
func waitFor(ctx context.Context, b box, job agent.Job, atMost time.Duration) (agent.Status, error) {
	f := subscribe(ctx, apiOf(b))
	defer f.close()
	deadline := time.NewTimer(atMost)
	defer deadline.Stop()
	poll := time.NewTicker(slowPoll)
	defer poll.Stop()
	var sign time.Time
	for over := false; ; {
		select {
		case e := <-f.events:
			if e.Properties.SessionID != "" {
				sign = time.Now()
			}
			if !e.news() {
				continue
			}
		case <-poll.C:
		case <-deadline.C:
			over = true
		case <-ctx.Done():
			return agent.Status{}, ctx.Err()
		}
		st, err := look(ctx, b, job)
		if err != nil || st.Done || over {
			return signed(ctx, b, st, sign), err
		}
	}
}

// signed puts the newest sign of life into st: an event seen, else the newest time in the session itself.
func signed(ctx context.Context, b box, st agent.Status, seen time.Time) agent.Status {
	if seen.After(st.LastSign) {
		st.LastSign = seen
	}
	if st.LastSign.IsZero() && st.SessionID != "" {
		if last, err := lastMessages(ctx, apiOf(b), st.SessionID, 1); err == nil && len(last) > 0 {
			st.LastSign = last[0].lastSign()
		}
	}
	return st
}
