package rollouts

import (
	"context"
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/store"
)

// blobs are what may be read of an attempt, by the names that the edge uses.
var blobs = map[string]string{
	"trace": store.Trace, "agent": store.AgentOutput, "verifier.stdout": store.VerifierStdout, "verifier.stderr": store.VerifierStderr,
}

// Open reads the trace or a log of the newest attempt that has one; fault.NotFound when there is none.
func (c *Client) Open(ctx context.Context, id, name string) (io.ReadCloser, error) {
	key, ok := blobs[name]
	if !ok {
		return nil, fault.New(fault.NotFound, "a rollout has no %q", name)
	}
	s, err := c.State(ctx, id)
	if err != nil {
		return nil, err
	}
	for n := s.Attempt; n > 0; n-- {
		r, err := c.store.Reader(ctx, store.AttemptKey(id, n, key))
		if err == nil || !fault.Is(err, fault.NotFound) {
			return r, err
		}
	}
	return nil, fault.New(fault.NotFound, "rollout %q has no %s", id, name)
}
