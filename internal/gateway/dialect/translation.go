package dialect

import (
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/google"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Events reports whether the agent gets server-sent events.
func (a *Request) Events() bool { return a.Stream && !a.Agent.list }

// translation turns calls of an API into chat completions.
type translation struct {
	// members of a request that have a counterpart
	members []string
	request func(body []byte) (*chat.Call, error)
	// reply returns the reply for an object written by the call's Reply.
	reply func(object []byte) render.AssembledReply
}

// Google returns the dialect of one call of Gemini's generateContent. A list stream is one JSON list
// instead of events. Such calls are always translated.
func Google(model string, stream, list bool) *Dialect {
	written := render.Generated
	if list {
		written = render.GeneratedList
	}

	translate := func(body []byte) (*chat.Call, error) { return google.Translate(body, model, stream) }

	return &Dialect{
		API: reply.Generate, Authorize: bearer, refusal: googleRefusal, list: list,
		translation: &translation{google.Members(), translate, written},
	}
}

// Prompt returns the prompt of a request as a chat completion, for counting its tokens.
func (d *Dialect) Prompt(body []byte, m rollout.Model) (*Request, error) {
	call, err := d.translation.request(body)
	if err != nil {
		return nil, err
	}

	o, err := rawjson.ParseObject(call.Body)
	if err != nil {
		return nil, err
	}

	if m.Name != "" {
		o.Set("model", rawjson.Quote(m.Name))
	}

	return &Request{Dialect: Chat(), Agent: d, Body: o.Bytes()}, nil
}

// translates reports whether a call goes upstream as a chat completion.
func (d *Dialect) translates(m rollout.Model) bool {
	return d.translation != nil && (d.API == reply.Generate || m.Translate == rollout.TranslateChat)
}

// upstreamForm is a request in its upstream form.
type upstreamForm struct {
	*Dialect
	*rawjson.Object

	// nil: not translated
	call *chat.Call

	// members without a counterpart
	removed []rawjson.Removed
}

// toUpstream reads a request, and translates it if the model's endpoint needs that.
func (d *Dialect) toUpstream(body []byte, m rollout.Model) (upstreamForm, error) {
	o, err := rawjson.ParseObject(body)
	if err != nil || !d.translates(m) {
		return upstreamForm{Dialect: d, Object: o}, err
	}

	call, err := d.translation.request(body)
	if err != nil {
		return upstreamForm{}, err
	}

	s := upstreamForm{Dialect: Chat(), call: call, removed: without(o, d.translation.members)}
	s.Object, err = rawjson.ParseObject(call.Body)

	return s, err
}

// note records what the translation dropped.
func (s upstreamForm) note(d *Draft) {
	d.noteRemoved(s.removed)

	for i, name := range s.call.Dropped {
		if i < maxRemoved {
			d.noteChange("tools."+name, rawjson.Quote("not a function of the agent"), nil)
		}
	}
}

// AgentReply returns a reply in the agent's API: whole is the assembled reply with the parts that the agent asked for.
func (a *Request) AgentReply(whole render.AssembledReply) (render.AssembledReply, error) {
	if a.call == nil {
		return whole, nil
	}

	c, err := chat.Read(whole.JSON())
	if err != nil {
		return nil, err
	}

	return a.Agent.translation.reply(a.call.Reply(c)), nil
}

// Translated reports whether the call goes upstream by another API than the agent's.
func (a *Request) Translated() bool { return a.call != nil }
