package client

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxEventLine bounds a line of the stream of events, in bytes.
const maxEventLine = 4 << 20

// Events calls each with the events of a rollout after an id, as they happen, until the rollout is done,
// the stream breaks or ctx ends. Kinds of its errors: NotFound for an unknown rollout, Unavailable when the
// server does not answer or the stream breaks, Unauthorized.
func (c *Client) Events(ctx context.Context, id string, after int64, each func(rollout.Event)) error {
	resp, err := c.sendWith(ctx, http.MethodGet, "/rollouts/"+url.PathEscape(id)+"/events", http.NoBody,
		http.Header{"Last-Event-ID": {strconv.FormatInt(after, 10)}}, eventSilence)
	if err != nil {
		return err
	}
	defer resp.Body.Close()

	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)

	for e := (rollout.Event{}); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			// 0: an event that is not in the log
			e.ID, _ = strconv.ParseInt(value, 10, 64)
		case "event":
			e.Kind = rollout.EventKind(value)
		case "data":
			e.Data = json.RawMessage(value)
			each(e)

			if e.Kind == rollout.EventDone {
				return nil
			}

			e = rollout.Event{}
		}
	}

	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	return fault.New(fault.Unavailable, "%s ended the stream of events early", c.Address())
}
