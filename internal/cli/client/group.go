package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Group is a group's state and the statistics of its rewards.
type Group struct {
	rollout.GroupState
	Statistics rollout.Statistics `json:"statistics"`
	PassAtK    map[int]float64    `json:"pass_at_k"`
}

// StartGroup starts a group of rollouts, or finds the one that has the id.
func (c *Client) StartGroup(ctx context.Context, args map[string]any) (Group, error) {
	body, err := json.Marshal(args)
	if err != nil {
		return Group{}, fault.Wrap(fault.Invalid, err, "encode the task")
	}

	reply, err := c.do(ctx, http.MethodPost, "/groups", bytes.NewReader(body))
	if err != nil {
		return Group{}, err
	}

	return c.group(reply)
}

// Group returns a group's state.
func (c *Client) Group(ctx context.Context, id string) (Group, error) {
	reply, err := c.do(ctx, http.MethodGet, "/groups/"+url.PathEscape(id), http.NoBody)
	if err != nil {
		return Group{}, err
	}

	return c.group(reply)
}

// Groups returns a page of at most f.Limit groups that f selects by Status, TaskID and Cursor, running ones first.
func (c *Client) Groups(ctx context.Context, f rollout.Filter) (rollout.GroupPage, error) {
	reply, err := c.do(ctx, http.MethodGet, "/groups?"+queryOf(f).Encode(), http.NoBody)
	if err != nil {
		return rollout.GroupPage{}, err
	}

	var page rollout.GroupPage
	if err := json.Unmarshal(reply, &page); err != nil {
		return page, noServer(c.Address(), fmt.Errorf("decode the list: %w", err))
	}

	return page, nil
}

// AbortGroup requests the end of a group and of its rollouts.
func (c *Client) AbortGroup(ctx context.Context, id string) (Aborted, error) {
	reply, err := c.do(ctx, http.MethodPost, "/groups/"+url.PathEscape(id)+"/abort", strings.NewReader("{}"))
	if err != nil {
		return Aborted{}, err
	}
	// the answer has no reason if the group is not aborted
	a := Aborted{Reason: "already done"}
	if err := json.Unmarshal(reply, &a); err != nil {
		return Aborted{}, noServer(c.Address(), fmt.Errorf("decode the answer: %w", err))
	}

	return a, nil
}

func (c *Client) group(reply []byte) (Group, error) {
	var g Group
	if err := json.Unmarshal(reply, &g); err != nil {
		return Group{}, noServer(c.Address(), fmt.Errorf("decode the group: %w", err))
	}

	return g, nil
}
