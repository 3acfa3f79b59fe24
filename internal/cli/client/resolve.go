package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxCandidates bounds the ids of each kind that are compared with a prefix of an id.
const maxCandidates = 100

// wholeID is the length of the ids that servers give.
const wholeID = 36

// Resolve returns the id of the rollout or group that has this id, or whose id alone begins with it. An id that
// nothing begins with is returned as it is: the caller's request says what it needs, and so do the errors of a
// server that does not answer. Several ids are a fault.Invalid.
func (c *Client) Resolve(ctx context.Context, id string) (string, error) {
	return resolve(ctx, id, c.IDs, func() bool {
		if st, err := c.State(ctx, id); err != nil || !st.Unknown() {
			return true
		}

		_, err := c.Group(ctx, id)

		return !fault.Is(err, fault.NotFound)
	})
}

// ResolveGroup is Resolve for the ids of groups.
func (c *Client) ResolveGroup(ctx context.Context, id string) (string, error) {
	return resolve(ctx, id, c.GroupIDs, func() bool {
		_, err := c.Group(ctx, id)
		return !fault.Is(err, fault.NotFound)
	})
}

// ResolveProducer is Resolve for the ids of producers.
func (c *Client) ResolveProducer(ctx context.Context, id string) (string, error) {
	return resolve(ctx, id, c.ProducerIDs, func() bool {
		_, err := c.Producer(ctx, id)
		return !fault.Is(err, fault.NotFound)
	})
}

// resolve selects among the ids that begin with a text. One that exists itself may be in no list: a list lags by a
// moment, and leaves out what only the store still has.
func resolve(
	ctx context.Context,
	id string,
	begin func(context.Context, string) ([]string, error),
	exists func() bool,
) (string, error) {
	// a whole id needs no list, which may not be there while Temporal is away
	if len(id) == wholeID && uuid.Validate(id) == nil {
		return id, nil
	}

	found, err := begin(ctx, id)
	if err != nil || len(found) == 0 || slices.Contains(found, id) || exists() {
		return id, nil //nolint:nilerr // the caller's own request reports it
	}

	if len(found) == 1 {
		return found[0], nil
	}

	return "", Ambiguous(id, found)
}

// Ambiguous is the error for a text with which several ids begin.
func Ambiguous(begin string, ids []string) error {
	const shown = 5

	more := ""
	if len(ids) > shown {
		ids, more = ids[:shown], " and others"
	}

	return fault.New(fault.Invalid, "%q is a prefix of several ids, %s%s: give more of it",
		begin, strings.Join(ids, ", "), more)
}

// IDs returns ids of rollouts and groups that begin with the text. Rollouts of a group that is among them are left out.
func (c *Client) IDs(ctx context.Context, begin string) ([]string, error) {
	ids, err := c.GroupIDs(ctx, begin)
	if err != nil {
		return nil, err
	}

	whole := map[string]bool{}
	for _, id := range ids {
		whole[id] = true
	}

	page, err := c.List(ctx, rollout.Filter{IDPrefix: begin, Limit: maxCandidates})
	if err != nil {
		return nil, err
	}

	for _, r := range page.Rollouts {
		if r.GroupID == "" || !whole[r.GroupID] || r.ID == begin {
			ids = append(ids, r.ID)
		}
	}

	return ids, nil
}

// GroupIDs returns ids of groups that begin with the text.
func (c *Client) GroupIDs(ctx context.Context, begin string) ([]string, error) {
	var page rollout.GroupPage
	if err := c.candidates(ctx, "/groups", begin, &page); err != nil {
		return nil, err
	}

	ids := make([]string, len(page.Groups))
	for i, g := range page.Groups {
		ids[i] = g.ID
	}

	return ids, nil
}

// ProducerIDs returns ids of producers that begin with the text.
func (c *Client) ProducerIDs(ctx context.Context, begin string) ([]string, error) {
	var page producer.Page
	if err := c.candidates(ctx, "/producers", begin, &page); err != nil {
		return nil, err
	}

	ids := make([]string, len(page.Producers))
	for i, p := range page.Producers {
		ids[i] = p.ID
	}

	return ids, nil
}

// candidates lists what begins with the text.
func (c *Client) candidates(ctx context.Context, path, begin string, out any) error {
	query := url.Values{"limit": {strconv.Itoa(maxCandidates)}}
	if begin != "" {
		query.Set("id_prefix", begin)
	}

	reply, err := c.do(ctx, http.MethodGet, path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}

	if err := json.Unmarshal(reply, out); err != nil {
		return noServer(c.Address(), fmt.Errorf("decode the list: %w", err))
	}

	return nil
}
