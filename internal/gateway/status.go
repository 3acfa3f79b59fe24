package gateway

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// Status returns the status of a route.
func (s *Server) Status(id string) (gatewayapi.RouteStatus, error) {
	r, err := s.route(id)
	if err != nil {
		return gatewayapi.RouteStatus{}, err
	}

	return r.status(), nil
}

// Watched implements feed.Routes.
func (s *Server) Watched(id string) (*FeedVersion, func() (gatewayapi.RouteStatus, error), error) {
	r, err := s.route(id)
	if err != nil {
		return nil, nil, err
	}

	return r.version, func() (gatewayapi.RouteStatus, error) {
		if current, err := s.route(id); err != nil || current != r {
			return gatewayapi.RouteStatus{}, noRoute(id)
		}

		return r.status(), nil
	}, nil
}

// Serving derives a context from ctx that also ends when the gateway stops.
func (s *Server) Serving(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.lifetime(), func() { cancel(errStopped) })

	return ctx, func() { stop(); cancel(nil) }
}

// Turns lists the recorded calls of a route after the first n, in the order they ended, at most gatewayapi.MaxTurns.
func (s *Server) Turns(id string, n int) ([]gatewayapi.Turn, error) {
	r, err := s.route(id)
	if err != nil || r.trace == nil {
		return nil, err
	}

	turns := []gatewayapi.Turn{}
	for _, e := range r.trace.EntriesFrom(max(n, 0), gatewayapi.MaxTurns) {
		turns = append(turns, gatewayapi.Turn{
			Turn:             e.Turn,
			Kind:             e.Kind,
			Lineage:          e.Lineage,
			PromptTokens:     e.Usage.PromptTokens,
			CompletionTokens: e.Usage.CompletionTokens,
			FinishReason:     e.Finish,
			Broken:           e.Broken,
			Began:            e.Began,
			Ended:            e.Ended,
		})
	}

	return turns, nil
}

// recorded returns the number of calls in the trace.
func (r *route) recorded() int {
	if r.trace == nil {
		return 0
	}

	return r.trace.Len()
}

func noRoute(id string) error { return fault.New(fault.NotFound, "no route %q", id) }
