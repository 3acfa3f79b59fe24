package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/transcript"
)

// Trace writes the trace of a rollout that is done to w, in the format jsonl or npz.
func (c *Client) Trace(ctx context.Context, id, format string, w io.Writer) error {
	return c.download(ctx, "/rollouts/"+url.PathEscape(id)+"/trace", url.Values{"format": {format}}, w)
}

// Page writes the page of a rollout or a group that is done to w, as one HTML file. of is "rollouts" or "groups".
func (c *Client) Page(ctx context.Context, of, id string, w io.Writer) error {
	return c.download(ctx, "/"+of+"/"+url.PathEscape(id)+"/page", nil, w)
}

// Log writes a log of a rollout that is done to w: agent, verifier, proxy or network.
func (c *Client) Log(ctx context.Context, id, name string, w io.Writer) error {
	return c.download(ctx, "/rollouts/"+url.PathEscape(id)+"/logs/"+name, nil, w)
}

// Messages returns the agent's latest transcript.
func (c *Client) Messages(ctx context.Context, id string) (t rollout.Transcript, err error) {
	err = c.stored(ctx, id, "messages", &t)
	return t, err
}

// Stored returns the result of a rollout that is done. Unlike Result it does not wait for one that runs.
func (c *Client) Stored(ctx context.Context, id string) (r rollout.Result, err error) {
	err = c.stored(ctx, id, "result", &r)
	return r, err
}

// Head returns the result of a rollout that is done without its model calls and files.
func (c *Client) Head(ctx context.Context, id string) (r rollout.Result, err error) {
	err = c.stored(ctx, id, "result?part=head", &r)
	return r, err
}

// Turns returns the turns after a turn of a rollout that is done, a page at a time.
func (c *Client) Turns(ctx context.Context, id string, after int) (p transcript.Page, err error) {
	err = c.stored(ctx, id, fmt.Sprintf("turns?after=%d", after), &p)
	return p, err
}

// Part returns a text of a turn whole. Turns are numbered from 1, their parts from 0.
func (c *Client) Part(ctx context.Context, id string, turn, part int) (string, error) {
	var text strings.Builder

	for offset := 0; ; {
		var r transcript.Range
		if err := c.stored(ctx, id, fmt.Sprintf("turns/%d/parts/%d?offset=%d", turn, part, offset), &r); err != nil {
			return "", err
		}

		text.WriteString(r.Text)

		if r.Next <= offset {
			return text.String(), nil
		}

		offset = r.Next
	}
}

func (c *Client) stored(ctx context.Context, id, what string, out any) error {
	reply, err := c.do(ctx, http.MethodGet, "/rollouts/"+url.PathEscape(id)+"/"+what, http.NoBody)
	if err != nil {
		return err
	}

	if err := json.Unmarshal(reply, out); err != nil {
		return noServer(c.Address(), fmt.Errorf("decode the %s: %w", what, err))
	}

	return nil
}

// Sequences selects training sequences.
type Sequences struct {
	// jsonl, atropos or trl
	Format string

	// drop or separate
	Subagents string

	// drop or train
	Summaries string

	// one or all of each rollout; "": one for trainers' formats
	Each string
}

// Trajectory writes the training sequences of a rollout or a group ("rollouts", "groups") that is done to w.
func (c *Client) Trajectory(ctx context.Context, of, id string, o Sequences, w io.Writer) error {
	query := url.Values{"format": {o.Format}, "subagents": {o.Subagents}}
	// An earlier server refuses parameters that it does not know.
	if o.Summaries != "drop" {
		query.Set("summaries", o.Summaries)
	}

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
