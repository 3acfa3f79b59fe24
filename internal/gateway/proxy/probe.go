package proxy

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
)

// Probe asks a route's endpoint for one token, as the agent's latest call asked it. A list of models would say less: an engine may
// give that and fail every call.
func (s *Server) Probe(ctx context.Context, id string) error {
	r, err := s.route(id)
	if err != nil {
		return err
	}
	return r.probe(ctx)
}

func (r *route) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gateway.ProbeTime)
	defer cancel()
	r.mu.Lock()
	d := r.dialect
	r.mu.Unlock()
	if d == nil {
		d = dialect.All()[0]
	}
	a, err := dialect.Read(d, http.Header{}, probeBody(d.API, r.Model.Name), r.Model, false)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "probe")
	}
	p := r.upstream.Probe(ctx, upstream.Spec{Request: a, Engines: r.engines, Path: string(d.API), Key: r.key, ClientGiven: r.Model.ClientGiven()})
	if p == nil {
		return nil
	}
	return fault.New(p.Kind, "model endpoint: %s", p.Message)
}

// probeBody is the least request of an API that samples a token.
func probeBody(api reply.API, model string) []byte {
	said := []map[string]string{{"role": "user", "content": "ping"}}
	request := map[string]any{"model": model}
	switch api {
	case reply.Completions:
		request["prompt"], request["max_tokens"] = "ping", 1
	case reply.Responses:
		request["input"], request["max_output_tokens"] = "ping", 16 // the least that OpenAI takes
	default:
		request["messages"], request["max_tokens"] = said, 1
	}
	body, _ := json.Marshal(request) // strings and numbers always encode
	return body
}
