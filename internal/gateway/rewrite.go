package gateway

import (
	"encoding/json"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/chat"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// rewrite sets what must be different upstream, and nothing else. A reply is always asked for as a stream: closing the
// connection then stops the engine at once.
func rewrite(o *chat.Object, m rollout.Model, capture bool) error {
	if m.Name != "" {
		name, _ := json.Marshal(m.Name) // a string always encodes
		o.Set("model", name)
	}
	if m.MaxTokensCap > 0 {
		clamp(o, m.MaxTokensCap)
	}
	o.Set("stream", []byte("true"))
	if err := setWithin(o, "stream_options", "include_usage", true); err != nil {
		return err
	}
	if m.Thinking != nil {
		if err := setWithin(o, "chat_template_kwargs", "enable_thinking", *m.Thinking); err != nil {
			return err
		}
	}
	if capture {
		askForTokens(o, m)
	}
	return nil
}

func askForTokens(o *chat.Object, m rollout.Model) {
	if m.Logprobs {
		o.Set("logprobs", []byte("true"))
		if want := max(m.TopLogprobs, number(o, "top_logprobs")); want > 0 {
			o.Set("top_logprobs", strconv.AppendInt(nil, int64(want), 10))
		}
	}
	if m.TokenIDs {
		o.Set("return_token_ids", []byte("true"))
	}
}

// clamp bounds what the call may generate under either name. A call that names no bound gets one.
func clamp(o *chat.Object, limit int) {
	bound := strconv.AppendInt(nil, int64(limit), 10)
	named := false
	for _, key := range []string{"max_tokens", "max_completion_tokens"} {
		raw, ok := o.Get(key)
		if !ok || string(raw) == "null" {
			continue
		}
		named = true
		if n, err := strconv.ParseFloat(string(raw), 64); err == nil && n > float64(limit) {
			o.Set(key, bound)
		}
	}
	if !named {
		o.Set("max_tokens", bound)
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
func setWithin(o *chat.Object, outer, key string, on bool) error {
	raw, ok := o.Get(outer)
	if !ok || string(raw) == "null" {
		raw = []byte("{}")
	}
	in, err := chat.ParseObject(raw)
	if err != nil {
		return fault.Field(outer, "must be an object")
	}
	in.Set(key, strconv.AppendBool(nil, on))
	o.Set(outer, in.Bytes())
	return nil
}
