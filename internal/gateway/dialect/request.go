package dialect

import (
	"net/http"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Request is one call of the agent, ready to be sent upstream.
type Request struct {
	// the dialect of the endpoint
	*Dialect

	// the dialect of the agent; differs if the call is translated
	Agent *Dialect
	call  *chat.Call

	// as sent upstream
	Body []byte

	// as sent upstream, raw
	Model   string
	Changes changes

	// the parts of the reply that the agent asked for
	View render.View

	// a reply without token ids cannot be used
	NeedsIDs bool

	// the agent wants events, not one object
	Stream  bool
	Kind    rollout.TurnKind
	Lineage string

	// the agent's session id; "": not named
	Session string

	// the parent session; "": none
	Parent string

	// the agent's headers that are forwarded
	Headers http.Header
	// Constrained is the member that makes the engine choose tokens under a grammar; "": none.
	Constrained string

	// as in rollout.Turn
	Fallback string

	// set by the rollout whatever the agent asks for
	Pins []Pin

	// a completion sent to SGLang's /generate
	ByGenerate bool

	// the ids that a chat completion has beside the messages as its prompt; nil: the messages are its prompt
	Prompt PromptIDs

	// whether it asks for the routed experts; see AskExperts
	Experts RoutedExperts

	// whether the gateway sets the salt of the engine's prefix cache, and the one it has set; see SetSalt
	saltable bool
	salt     string

	// changes for what the endpoint does not accept
	Fixes []string

	// whether the model sees images, as in rollout.Model
	Images *bool
}

// usualChanges is the number of changed members of most requests.
const usualChanges = 16

// Read parses the agent's request and rewrites it for the model. Its error is a fault.Invalid for the agent.
func Read(agent *Dialect, h http.Header, body []byte, m rollout.Model, capture bool) (*Request, error) {
	o, err := agent.toUpstream(body, m)
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
		NeedsIDs: capture && m.TokenIDs && d.ids, Images: m.Images,
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

	a.saltable = capture && m.TokenIDs && d.capture != nil && !salted(sent.Object)
	a.View = sent.Changes.view(d.API, a.Stream)
	a.Take(sent)

	return a, nil
}

// Take makes a draft the request that is sent.
func (a *Request) Take(d *Draft) {
	model, _ := d.Get("model")
	a.Model, a.Changes, a.Body = string(model), d.Changes, d.Bytes()
}

// Headers in which agents name their sessions.
const (
	sessionHeader  = "X-Session-Id"
	parentHeader   = "X-Parent-Session-Id"
	affinityHeader = "X-Session-Affinity"
)

// forwarded returns the headers that are forwarded: those by which routers keep a session on one engine,
// and the API's own.
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

// ContinuesStored reports whether the request names an earlier response or a conversation. A 404 is then
// about that, not about the endpoint.
func (a *Request) ContinuesStored() bool {
	o, err := rawjson.ParseObject(a.Body)
	return err == nil && a.API == reply.Responses && (on(o, "previous_response_id") || on(o, "conversation"))
}
