package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Trace writes the trace of a rollout that is done to w, in the format jsonl or npz.
func (c *Client) Trace(ctx context.Context, id, format string, w io.Writer) error {
	return c.download(ctx, "/rollouts/"+url.PathEscape(id)+"/trace", url.Values{"format": {format}}, w)
}

// Sequences selects training sequences.
type Sequences struct {
	// jsonl, atropos or trl
	Format string

	// drop or separate
	Subagents string

	// one or all of each rollout; "": one for trainers' formats
	Each string
}

// Trajectory writes the training sequences of a rollout or a group ("rollouts", "groups") that is done to w.
func (c *Client) Trajectory(ctx context.Context, of, id string, o Sequences, w io.Writer) error {
	query := url.Values{"format": {o.Format}, "subagents": {o.Subagents}}
	if o.Each != "" {
		query.Set("sequences", o.Each)
	}

	return c.download(ctx, "/"+of+"/"+url.PathEscape(id)+"/trajectory", query, w)
}

// download writes the answer to a GET to w.
func (c *Client) download(ctx context.Context, path string, query url.Values, w io.Writer) error {
	resp, err := c.send(ctx, http.MethodGet, path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	defer resp.Body.Close()

	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}

	return nil
}
