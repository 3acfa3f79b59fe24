package toolclient

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// List asks for a page of rollouts, newest first; a Limit of 0 leaves the page's size to the server. It needs an operator's
// token where the server wants tokens.
func (c *Client) List(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	reply, err := c.do(ctx, http.MethodGet, "/rollouts?"+queryOf(f).Encode(), http.NoBody)
	if err != nil {
		return rollout.Page{}, err
	}
	var page rollout.Page
	if err := json.Unmarshal(reply, &page); err != nil {
		return rollout.Page{}, fault.Wrap(fault.Unavailable, err, "this is no rolloutd server")
	}
	return page, nil
}

func queryOf(f rollout.Filter) url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"status": f.Status, "task_id": f.TaskID, "group_id": f.GroupID, "outcome": string(f.Outcome), "cursor": f.Cursor,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return q
}
