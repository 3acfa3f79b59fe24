package gateway

import (
	"net/http"

	"github.com/rolloutd/rolloutd/internal/chat"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// ask is one call of the agent, ready to go upstream.
type ask struct {
	body    []byte // as sent upstream
	stream  bool   // the agent wants events, not one object
	kind    rollout.TurnKind
	lineage string
	session http.Header // what upstream routers use to keep a session on one engine
}

// readAsk reads the agent's request and rewrites it for the model. The error is the agent's own: a fault.Invalid.
func readAsk(h http.Header, body []byte, m rollout.Model, capture bool) (*ask, error) {
	o, err := chat.ParseObject(body)
	if err != nil {
		return nil, err
	}
	if n, ok := o.Get("n"); ok && string(n) != "1" && string(n) != "null" {
		return nil, fault.Field("n", "must be 1: one choice is captured for each call")
	}
	stream, _ := o.Get("stream")
	a := &ask{stream: string(stream) == "true", session: sessionHeaders(h)}
	a.kind, a.lineage = classify(h, o.Opening())
	if err := rewrite(o, m, capture); err != nil {
		return nil, err
	}
	a.body = o.Bytes()
	return a, nil
}

// Headers by which the agent tells its sessions.
const (
	sessionHeader  = "X-Session-Id"
	parentHeader   = "X-Parent-Session-Id"
	affinityHeader = "X-Session-Affinity"
)

func sessionHeaders(h http.Header) http.Header {
	out := http.Header{}
	for _, name := range []string{sessionHeader, parentHeader, affinityHeader} {
		if v := h.Get(name); v != "" {
			out.Set(name, v)
		}
	}
	return out
}
