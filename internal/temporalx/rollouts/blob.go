package rollouts

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/store"
)

// blobs are the readable objects of an attempt, by the names that the edge uses. The output of an agent has
// one of two keys. An agent on the host has no process with output, so its events are its log.
var blobs = map[string][]string{
	"trace":           {store.Trace},
	"routed_experts":  {store.RoutedExperts},
	"images":          {store.Images},
	"steps":           {store.Steps},
	"agent":           {store.OpencodeOutput, store.AgentOutput, store.AgentEvents},
	"verifier.stdout": {store.VerifierStdout},
	"verifier.stderr": {store.VerifierStderr},
	"network":         {store.Network},
}

// Open reads the result, or the trace or a log of the newest attempt that has one; fault.NotFound when
// there is none. The caller closes it.
func (c *Client) Open(ctx context.Context, id, name string) (io.ReadCloser, error) {
	if name == "result" {
		return c.openResult(ctx, id)
	}

	if _, ok := blobs[name]; !ok {
		return nil, fault.New(fault.NotFound, "a rollout has no %q", name)
	}

	var found io.ReadCloser

	err := c.newest(ctx, id, name, func(key string) (err error) {
		found, err = c.store.Reader(ctx, key)
		return err
	})

	return found, err
}

// newest calls look with the keys of a blob, of the newest attempt first, until look's error is not fault.NotFound. It
// returns that error.
func (c *Client) newest(ctx context.Context, id, name string, look func(key string) error) error {
	s, err := c.State(ctx, id)
	if err != nil {
		return err
	}

	for n := s.Attempt; n > 0; n-- {
		for _, key := range blobs[name] {
			if err := look(store.AttemptKey(id, n, key)); !fault.Is(err, fault.NotFound) {
				return err
			}
		}
	}

	return fault.New(fault.NotFound, "rollout %q has no %s", id, name)
}

// openResult reads the stored result. A workflow that was terminated or failed has stored none; its
// substitute is encoded here.
func (c *Client) openResult(ctx context.Context, id string) (io.ReadCloser, error) {
	stored, err := c.store.Reader(ctx, store.ResultKey(id))
	if !fault.Is(err, fault.NotFound) {
		return stored, err
	}

	s, err := c.State(ctx, id)
	if err != nil {
		return nil, err
	}

	if !s.Done() {
		return nil, fault.New(fault.NotFound, "rollout %q has no result yet", id)
	}

	res, err := c.Wait(ctx, id)
	if err != nil {
		return nil, err
	}

	data, err := json.Marshal(res)

	return io.NopCloser(bytes.NewReader(data)), fault.Wrap(fault.Internal, err, "encode the result of %q", id)
}
