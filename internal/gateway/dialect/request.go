package dialect

import (
	"net/http"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/translate/chat"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Request is one call of the agent, ready to be sent upstream.
type Request struct {
	*Dialect          // of the endpoint
	Agent    *Dialect // of the agent, where the call is translated another one
	call     *chat.Call
	Body     []byte // as sent upstream
	Model    string // as sent upstream, raw
	Changes  changes
	View     render.View // what the agent asked for of what is asked upstream
	NeedsIDs bool        // the tokens' ids: a reply without them is of no use
	Stream   bool        // the agent wants events, not one object
	Kind     rollout.TurnKind
	Lineage  string
	Session  string      // as the agent names it; "": it does not
	Parent   string      // the session that began it; "": none
	Headers  http.Header // of the agent's headers those that go upstream
	// Constrained is the member by which the engine is to choose tokens under a grammar; "": none.
	Constrained string
	Pins        []Pin    // what the rollout sets whatever the agent asks for
	ByGenerate  bool     // a completion that goes to SGLang's /generate
	Fixes       []string // what was changed since the endpoint does not take it
}

// usualChanges is how many members of a request are changed at most, most often.
const usualChanges = 16

// Read parses the agent's request and rewrites it for the model. Its error is a fault.Invalid for the agent.
func Read(agent *Dialect, h http.Header, body []byte, m rollout.Model, capture bool) (*Request, error) {
	o, err := agent.speak(body, m)
	if err != nil {
		return nil, err
	}
	d := o.Dialect
	if d.check != nil {
		if err := d.check(o.Object); err != nil {
			return nil, err
		}
	}
	stream, _ := o.Get("stream")
	a := &Request{
		Dialect: d, Agent: agent, call: o.call, Stream: string(stream) == "true", Headers: d.forwarded(h),
		NeedsIDs: capture && m.TokenIDs && d.ids,
	}
	a.Session, a.Parent = h.Get(sessionHeader), h.Get(parentHeader)
	a.Kind, a.Lineage = classify(h, OpeningOf(d.API, o.Object))
	a.Constrained = constraint(o.Object)
	if m.Training() {
		if err := refuseConstrained(o.Object, a.Constrained); err != nil {
			return nil, err
		}
	}
	sent := &Draft{Object: o.Object, Changes: make(changes, 0, usualChanges)}
	if o.call != nil {
		o.note(sent)
	}
	if a.Pins, err = d.rewrite(sent, m, capture); err != nil {
		return nil, err
	}
	a.View = sent.Changes.view(d.API, a.Stream)
	a.Take(sent)
	return a, nil
}

// Take makes a draft what goes upstream.
func (a *Request) Take(d *Draft) {
	model, _ := d.Get("model")
	a.Model, a.Changes, a.Body = string(model), d.Changes, d.Bytes()
}

// Headers by which the agent tells its sessions.
const (
	sessionHeader  = "X-Session-Id"
	parentHeader   = "X-Parent-Session-Id"
	affinityHeader = "X-Session-Affinity"
)

// forwarded are the headers that go upstream: those that routers use to keep a session on one engine, and the API's own.
func (d *Dialect) forwarded(h http.Header) http.Header {
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
