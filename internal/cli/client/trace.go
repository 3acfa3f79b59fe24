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
	path := "/rollouts/" + url.PathEscape(id) + "/trace?" + url.Values{"format": {format}}.Encode()
	resp, err := c.send(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return fmt.Errorf("read trace of %s: %w", id, err)
	}
	return nil
}
