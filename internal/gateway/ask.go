package gateway

import (
	"net/http"

	"github.com/rolloutd/rolloutd/internal/chat"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// ask is one call of the agent, ready to go upstream.
type ask struct {
	*dialect
	body     []byte // as sent upstream
	model    string // as sent upstream, raw
	changes  changes
	view     chat.View // what the agent asked for of what is asked upstream
	demanded bool      // the tokens' ids: a reply without them is of no use
	stream   bool      // the agent wants events, not one object
	kind     rollout.TurnKind
	lineage  string
	live     *live       // of a reply that is handed on as it comes; else nil
	session  http.Header // of the agent's headers those that go upstream
}

// readAsk reads the agent's request and rewrites it for the model. The error is the agent's own: a fault.Invalid.
func readAsk(d *dialect, h http.Header, body []byte, m rollout.Model, capture bool) (*ask, error) {
	o, err := chat.ParseObject(body)
	if err != nil {
		return nil, err
	}
	if d.check != nil {
		if err := d.check(o); err != nil {
			return nil, err
		}
	}
	stream, _ := o.Get("stream")
	a := &ask{
		dialect: d, stream: string(stream) == "true", session: d.forwarded(h),
		demanded: capture && m.TokenIDs && d.ids,
	}
	a.kind, a.lineage = classify(h, d.api.Opening(o))
	sent := &draft{Object: o}
	if err := d.rewrite(sent, m, capture); err != nil {
		return nil, err
	}
	a.view = sent.changes.view(d.api, a.stream)
	a.take(sent)
	return a, nil
}

// take makes a draft what goes upstream.
func (a *ask) take(d *draft) {
	model, _ := d.Get("model")
	a.model, a.changes, a.body = string(model), d.changes, d.Bytes()
}

// Headers by which the agent tells its sessions.
const (
	sessionHeader  = "X-Session-Id"
	parentHeader   = "X-Parent-Session-Id"
	affinityHeader = "X-Session-Affinity"
)

// forwarded are the headers that go upstream: those that routers use to keep a session on one engine, and the API's own.
func (d *dialect) forwarded(h http.Header) http.Header {
	out := http.Header{}
	for _, names := range [][]string{{sessionHeader, parentHeader, affinityHeader}, d.headers} {
		for _, name := range names {
			if v := h.Values(name); len(v) > 0 && v[0] != "" {
				out[name] = v
			}
		}
	}
	return out
}
