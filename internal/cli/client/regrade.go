package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// regradeWait is how long one request waits for the end of a regrade.
const regradeWait = "30"

// Regrade grades the saved work of a finished rollout again, by the verifier of a task's arguments, and waits for the
// grade.
func (c *Client) Regrade(ctx context.Context, id string, task map[string]any, apply bool) (rollout.Regrade, error) {
	body, err := json.Marshal(map[string]any{"task": task, "apply": apply})
	if err != nil {
		return rollout.Regrade{}, fault.Wrap(fault.Invalid, err, "encode the task")
	}

	path := "/rollouts/" + url.PathEscape(id)

	reply, err := c.do(ctx, http.MethodPost, path+"/regrade", bytes.NewReader(body))
	for {
		if err != nil {
			return rollout.Regrade{}, err
		}

		var r rollout.Regrade
		if err := json.Unmarshal(reply, &r); err != nil {
			return r, noServer(c.Address(), fmt.Errorf("decode the regrade: %w", err))
		}

		if r.Done() {
			return r, nil
		}

		reply, err = c.do(ctx, http.MethodGet, path+"/regrades/"+r.ID+"?wait_s="+regradeWait, http.NoBody)
	}
}
