package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Producer is the state of a producer; Broken lists tasks that were left out at its start.
type Producer struct {
	producer.State
	Broken []string `json:"broken,omitempty"`

	// tasks of a configured set that `tasks check` has not proved
	Unproved int `json:"unproved,omitempty"`
}

// StartProducer starts a producer, or finds the one that has the id.
func (c *Client) StartProducer(ctx context.Context, args map[string]any) (Producer, error) {
	var p Producer

	err := c.producer(ctx, http.MethodPost, "/producers", args, &p)

	return p, err
}

// Producer returns the state of a producer.
func (c *Client) Producer(ctx context.Context, id string) (Producer, error) {
	var p Producer

	err := c.producer(ctx, http.MethodGet, "/producers/"+url.PathEscape(id), nil, &p)

	return p, err
}

// Producers returns a page of at most f.Limit producers that f selects by Status and Cursor, running ones first.
func (c *Client) Producers(ctx context.Context, f rollout.Filter) (producer.Page, error) {
	var page producer.Page

	err := c.producer(ctx, http.MethodGet, "/producers?"+queryOf(f).Encode(), nil, &page)

	return page, err
}

// ChangeProducer requests a change, "change" or "abort", with its arguments; done: the producer had ended before.
func (c *Client) ChangeProducer(ctx context.Context, id, change string, args map[string]any) (done bool, err error) {
	var answer struct {
		Done bool `json:"done"`
	}

	err = c.producer(ctx, http.MethodPost, "/producers/"+url.PathEscape(id)+"/"+change, args, &answer)

	return answer.Done, err
}

func (c *Client) producer(ctx context.Context, method, path string, args map[string]any, out any) error {
	var body io.Reader = http.NoBody

	if args != nil {
		text, err := json.Marshal(args)
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "encode the producer")
		}

		body = bytes.NewReader(text)
	}

	reply, err := c.do(ctx, method, path, body)
	if err != nil {
		return err
	}

	if err := json.Unmarshal(reply, out); err != nil {
		return noServer(c.Address(), fmt.Errorf("decode the producer: %w", err))
	}

	return nil
}
