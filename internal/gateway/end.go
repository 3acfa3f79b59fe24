package gateway

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// End cancels a route's calls at once and returns when they are recorded. The first reason is kept.
func (s *Server) End(ctx context.Context, id, reason string) error {
	r, err := s.route(id)
	if err != nil {
		return err
	}

	return r.end(ctx, reason)
}

// end implements End.
func (r *route) end(ctx context.Context, reason string) error {
	if reason == "" {
		reason = errEnded.Error()
	}

	calls, err := r.endCalls(reason)
	for _, c := range calls {
		select {
		case <-c.done:
		case <-ctx.Done():
			return fault.Wrap(fault.Timeout, context.Cause(ctx), "end route %q", r.ID)
		}
	}

	return err
}

func (r *route) endCalls(reason string) ([]*call, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.journal.Ended == "" {
		r.journal.Ended = reason
		r.version.Note()
		r.notifyRegistered()
	}

	calls := make([]*call, 0, len(r.inFlight))
	for _, c := range r.inFlight {
		c.cancel(errEnded)
		calls = append(calls, c)
	}
	// save each time: the save of an earlier End may have failed
	return calls, r.save()
}
