package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// RunAgain starts another rollout like an existing one; newID "": the server chooses its id.
func (c *Client) RunAgain(ctx context.Context, id, newID string) (Started, error) {
	var s Started

	args := map[string]string{}
	if newID != "" {
		args["rollout_id"] = newID
	}

	body, err := json.Marshal(args)
	if err != nil {
		return s, fault.Wrap(fault.Invalid, err, "encode the arguments")
	}

	reply, err := c.do(ctx, http.MethodPost, "/rollouts/"+url.PathEscape(id)+"/again", bytes.NewReader(body))
	if err != nil {
		return s, err
	}

	if err := json.Unmarshal(reply, &s); err != nil {
		return s, noServer(c.Address(), fmt.Errorf("decode the rollout: %w", err))
	}

	return s, nil
}
