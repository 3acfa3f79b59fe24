package dialect

import (
	"fmt"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Members that several rules use.
const (
	MaxTokens           = "max_tokens"
	MaxCompletionTokens = "max_completion_tokens"
	StreamOptions       = "stream_options"
	ReturnIDs           = "return_token_ids"
	ReturnVersions      = "return_weight_versions"
	ResponseMessages    = "enable_response_messages"
	Include             = "include"
)

// rewrite removes members that are not forwarded and sets those that must differ upstream. It always asks
// for a stream, so that closing the connection stops the engine at once.
func (d *Dialect) rewrite(o *Draft, m rollout.Model, capture bool) (pins []Pin, err error) {
	d.restrict(o)

	if m.Name != "" {
		o.Set("model", rawjson.Quote(m.Name))
	}

	if pins, err = d.pin(o, m, capture); err != nil {
		return nil, err
	}

	if m.MaxTokensCap > 0 {
		d.clamp(o, m.MaxTokensCap)
	}

	o.Set("stream", []byte("true"))

	if d.counts {
		if err := setWithin(o, StreamOptions, "include_usage", true); err != nil {
			return nil, err
		}
	}

	if m.Thinking != nil && d.template {
		if err := setWithin(o, "chat_template_kwargs", "enable_thinking", *m.Thinking); err != nil {
			return nil, err
		}
	}

	if capture && d.capture != nil {
		d.capture(o, m)

		if m.Trainable() {
			o.removeStrict()
		}
	}

	return pins, nil
}

// clamp bounds the output of the call. It also sets a bound if the agent's is missing, out of range or not
// a number: model servers parse numbers from strings and take a negative one for no bound.
func (d *Dialect) clamp(o *Draft, limit int) {
	bound := strconv.AppendInt(nil, int64(limit), 10)
	named := false

	for _, key := range d.bounds {
		raw, ok := o.Get(key)
		if !ok || string(raw) == "null" {
			continue
		}

		named = true

		if n, err := strconv.ParseFloat(string(raw), 64); err != nil || !(n >= 0 && n <= float64(limit)) {
			o.Set(key, bound)
		}
	}

	if !named {
		o.Set(d.bounds[0], bound)
	}
}

func number(o *rawjson.Object, key string) int {
	raw, ok := o.Get(key)
	if !ok {
		return 0
	}

	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0
	}

	return n
}

// setWithin sets a member of an object member, and keeps its others.
func setWithin(o *Draft, outer, key string, on bool) error {
	raw, ok := o.Get(outer)
	if !ok || string(raw) == "null" {
		o.Set(outer, fmt.Appendf(nil, "{%q:%t}", key, on))
		return nil
	}

	in, err := rawjson.ParseObject(raw)
	if err != nil {
		return fault.Field(outer, "must be an object")
	}

	in.Set(key, strconv.AppendBool(nil, on))
	o.Set(outer, in.Bytes())

	return nil
}

// view returns the parts that the agent asked for among those that are always asked for upstream.
func (c changes) view(api reply.API, stream bool) render.View {
	v := render.All()

	v.API, v.IDs, v.Logprobs, v.Usage = api, !c.set(ReturnIDs, ResponseMessages), !c.set(
		"logprobs",
		Include,
	), !c.set(StreamOptions) ||
		!stream
	if top, ok := c.of("top_logprobs"); ok {
		// the engine's default is none
		v.Top = 0
		if top.from != nil {
			v.Top, _ = strconv.Atoi(string(top.from))
		}
	}

	return v
}
