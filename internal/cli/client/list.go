package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

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
		"status":        f.Status,
		"q":             f.Query,
		"task_id":       f.TaskID,
		"group_id":      f.GroupID,
		"model":         f.Model,
		"agent":         f.Agent,
		"endpoint":      f.Endpoint,
		"model_version": f.ModelVersion,
		"sort":          f.Sort,
		"outcome":       string(f.Outcome),
		"cursor":        f.Cursor,

		"id_prefix":   f.IDPrefix,
		"producer_id": f.ProducerID,
		"ids":         strings.Join(f.IDs, ","),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}

	for name, bound := range map[string]*float64{"min_reward": f.MinReward, "max_reward": f.MaxReward} {
		if bound != nil {
			q.Set(name, strconv.FormatFloat(*bound, 'g', -1, 64))
		}
	}

	for name, bound := range map[string]*int{"min_turns": f.MinTurns, "max_turns": f.MaxTurns} {
		if bound != nil {
			q.Set(name, strconv.Itoa(*bound))
		}
	}

	for name, bound := range map[string]*time.Duration{"min_duration_s": f.MinDuration, "max_duration_s": f.MaxDuration} {
		if bound != nil {
			q.Set(name, strconv.FormatFloat(bound.Seconds(), 'g', -1, 64))
		}
	}

	for name, bound := range map[string]time.Time{"since": f.Since, "until": f.Until, "ended_since": f.EndedSince} {
		if !bound.IsZero() {
			q.Set(name, bound.UTC().Format(time.RFC3339Nano))
		}
	}

	if f.Detail {
		q.Set("detail", "true")
	}

	return q
}
