package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Deliver starts the delivery of a finished group to a sink, or finds it.
func (c *Client) Deliver(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	body, err := json.Marshal(map[string]string{"sink": spec.Sink})
	if err != nil {
		return rollout.Delivery{}, fault.Wrap(fault.Internal, err, "encode the request")
	}

	reply, err := c.do(ctx, http.MethodPost, "/groups/"+url.PathEscape(spec.GroupID)+"/deliver", bytes.NewReader(body))
	if err != nil {
		return rollout.Delivery{}, err
	}

	return c.delivery(reply)
}

// Delivery returns the state of a delivery.
func (c *Client) Delivery(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	reply, err := c.do(ctx, http.MethodGet,
		"/groups/"+url.PathEscape(spec.GroupID)+"/deliveries/"+url.PathEscape(spec.Sink), http.NoBody)
	if err != nil {
		return rollout.Delivery{}, err
	}

	return c.delivery(reply)
}

func (c *Client) delivery(reply []byte) (rollout.Delivery, error) {
	var d rollout.Delivery
	if err := json.Unmarshal(reply, &d); err != nil {
		return d, noServer(c.Address(), fmt.Errorf("decode the delivery: %w", err))
	}

	return d, nil
}

// Deliveries returns a page of at most f.Limit deliveries: those that have not ended, then the others,
// oldest group first.
func (c *Client) Deliveries(ctx context.Context, f rollout.DeliveryFilter) (rollout.DeliveryPage, error) {
	q := url.Values{"limit": {strconv.Itoa(f.Limit)}}
	for name, value := range map[string]string{
		"sink": f.Sink, "state": string(f.State), "producer_id": f.ProducerID, "cursor": f.Cursor,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}

	var page rollout.DeliveryPage

	reply, err := c.do(ctx, http.MethodGet, "/deliveries?"+q.Encode(), http.NoBody)
	if err != nil {
		return page, err
	}

	if err := json.Unmarshal(reply, &page); err != nil {
		return page, noServer(c.Address(), fmt.Errorf("decode the list: %w", err))
	}

	return page, nil
}
