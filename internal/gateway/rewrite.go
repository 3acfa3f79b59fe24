package gateway

import (
	"encoding/json"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/chat"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Members that more than one rule knows.
const (
	maxTokens           = "max_tokens"
	maxCompletionTokens = "max_completion_tokens"
	streamOptions       = "stream_options"
	returnIDs           = "return_token_ids"
	responseMessages    = "enable_response_messages"
	include             = "include"
)

// rewrite sets what must be different upstream, and nothing else. A reply is always asked for as a stream: closing the
// connection then stops the engine at once.
func (d *dialect) rewrite(o *draft, m rollout.Model, capture bool) error {
	if m.Name != "" {
		name, _ := json.Marshal(m.Name) // a string always encodes
		o.set("model", name)
	}
	if m.MaxTokensCap > 0 {
		d.clamp(o, m.MaxTokensCap)
	}
	o.set("stream", []byte("true"))
	if d.counts {
		if err := setWithin(o, streamOptions, "include_usage", true); err != nil {
			return err
		}
	}
	if m.Thinking != nil && d.template {
		if err := setWithin(o, "chat_template_kwargs", "enable_thinking", *m.Thinking); err != nil {
			return err
		}
	}
	if capture && d.capture != nil {
		d.capture(o, m)
	}
	return nil
}

// clamp bounds what the call may generate. A call that names no bound gets one, and so does one that names no number within it: model
// servers read numbers out of strings, and take one below 0 for no bound.
func (d *dialect) clamp(o *draft, limit int) {
	bound := strconv.AppendInt(nil, int64(limit), 10)
	named := false
	for _, key := range d.bounds {
		raw, ok := o.Get(key)
		if !ok || string(raw) == "null" {
			continue
		}
		named = true
		if n, err := strconv.ParseFloat(string(raw), 64); err != nil || !(n >= 0 && n <= float64(limit)) {
			o.set(key, bound)
		}
	}
	if !named {
		o.set(d.bounds[0], bound)
	}
}

func number(o *chat.Object, key string) int {
	raw, _ := o.Get(key)
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0
	}
	return n
}

// setWithin sets one member of an object that is itself a member, and keeps its others.
func setWithin(o *draft, outer, key string, on bool) error {
	raw, ok := o.Get(outer)
	if !ok || string(raw) == "null" {
		raw = []byte("{}")
	}
	in, err := chat.ParseObject(raw)
	if err != nil {
		return fault.Field(outer, "must be an object")
	}
	in.Set(key, strconv.AppendBool(nil, on))
	o.set(outer, in.Bytes())
	return nil
}

// view is what the agent asked for itself of what is asked upstream in any case.
func (c changes) view(api chat.API, stream bool) chat.View {
	v := chat.All()
	_, counts := c.of(streamOptions)
	v.API, v.IDs, v.Logprobs, v.Usage = api, !c.any(returnIDs, responseMessages), !c.any("logprobs", include), !counts || !stream
	if top, ok := c.of("top_logprobs"); ok {
		v.Top, _ = strconv.Atoi(string(top.from)) // none: the engine's default is none
	}
	return v
}
