package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// List returns a page of at most f.Limit rollouts, running ones first. Where the server requires tokens, it
// needs an operator's.
func (c *Client) List(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	reply, err := c.do(ctx, http.MethodGet, "/rollouts?"+queryOf(f).Encode(), http.NoBody)
	if err != nil {
		return rollout.Page{}, err
	}

	var page rollout.Page
	if err := json.Unmarshal(reply, &page); err != nil {
		return rollout.Page{}, noServer(c.Address(), fmt.Errorf("decode the list: %w", err))
	}

	return page, nil
}

func queryOf(f rollout.Filter) url.Values {
	q := url.Values{"limit": {strconv.Itoa(f.Limit)}}
	for name, value := range map[string]string{
		"status":   f.Status,
		"task_id":  f.TaskID,
		"group_id": f.GroupID,
		"outcome":  string(f.Outcome),
		"cursor":   f.Cursor,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}

	if f.Detail {
		q.Set("detail", "true")
	}

	return q
}
