package dialect

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const temperature = "temperature"

// Pin is a member that the rollout sets on every call.
type Pin struct {
	Member string
	// Neutral: the value equals the default, so an endpoint without the member can be used.
	Neutral bool
}

// parameter is one sampling parameter of a rollout.
type parameter struct {
	name    string
	value   []byte
	neutral bool
}

// parameters returns the parameters that a rollout pins, in a fixed order.
func parameters(s *rollout.Sampling) []parameter {
	out := make([]parameter, 0, 10)
	number := func(name string, v *float64, neutral float64, has bool) {
		if v != nil {
			out = append(out, parameter{name, strconv.AppendFloat(nil, *v, 'f', -1, 64), has && *v == neutral})
		}
	}
	number(temperature, s.Temperature, 0, false)
	number("top_p", s.TopP, 1, true)

	if s.TopK != nil {
		out = append(out, parameter{"top_k", strconv.AppendInt(nil, int64(*s.TopK), 10), *s.TopK <= 0})
	}

	number("min_p", s.MinP, 0, true)
	number("repetition_penalty", s.RepetitionPenalty, 1, true)
	number("presence_penalty", s.PresencePenalty, 0, true)
	number("frequency_penalty", s.FrequencyPenalty, 0, true)

	if s.Seed != nil {
		out = append(out, parameter{"seed", strconv.AppendInt(nil, *s.Seed, 10), false})
	}

	if s.MaxTokens != nil {
		out = append(out, parameter{MaxTokens, strconv.AppendInt(nil, int64(*s.MaxTokens), 10), false})
	}

	if len(s.Stop) > 0 {
		// strings always encode
		list, _ := json.Marshal(s.Stop)
		out = append(out, parameter{"stop", list, false})
	}

	return out
}

// member returns the name of a sampling parameter in the API; "": none.
func (d *Dialect) member(parameter string) string {
	switch {
	case parameter == MaxTokens:
		return d.bounds[0]
	case parameter == "stop" && d.API == reply.Messages:
		return "stop_sequences"
	case d.API == reply.Chat || d.API == reply.Completions || slices.Contains([]string{
		temperature, "top_p", "top_k",
	}, parameter):
		return parameter
	default:
		return ""
	}
}

// pin overrides the agent's sampling parameters with the rollout's. It refuses a call if the API has no
// member for a value that is not neutral.
//
// Calls whose tokens may be trained on sample from the unmodified policy even if the rollout pins nothing:
// an agent's top_p, or an engine's defaults, which vLLM takes from the model's generation_config.json,
// would make the log probabilities those of another distribution.
func (d *Dialect) pin(o *Draft, m rollout.Model, capture bool) ([]Pin, error) {
	if !capture || d.capture == nil || !m.Trainable() {
		return d.pinAll(o, m.Sampling, false)
	}

	pins, err := d.pinAll(o, m.Sampling.ForTraining(), true)
	if given, ok := o.Get(temperature); err == nil && (!ok || string(given) == "null") {
		o.Set(temperature, []byte("1"))
		pins = append(pins, Pin{temperature, true})
	}

	return pins, err
}

// pinAll sets parameters. engine: the endpoint is an engine, whose Responses API has all of them.
func (d *Dialect) pinAll(o *Draft, s *rollout.Sampling, engine bool) ([]Pin, error) {
	if s == nil {
		return nil, nil
	}

	var pins []Pin

	for _, p := range parameters(s) {
		member := d.member(p.name)
		switch {
		case member != "":
		case p.neutral && engine:
			member = p.name
		case p.neutral:
			continue
		default:
			return nil, fault.Field(p.name, "this rollout pins it, and %s has no such parameter", d.API)
		}

		if p.name == MaxTokens {
			for _, other := range d.bounds[1:] {
				o.Remove(other)
			}
		}

		o.Set(member, p.value)
		pins = append(pins, Pin{member, p.neutral})
	}

	return pins, nil
}

// forcing reports whether a member makes the engine choose tokens without sampling. Such members are never forwarded.
func forcing(key string) bool {
	return slices.Contains([]string{
		"logit_bias", "allowed_token_ids", "structured_outputs", "min_tokens",
	}, key) || strings.HasPrefix(key, "guided_")
}

// refuseConstrained refuses a call whose tokens would not be sampled freely; member is its constraint. For
// other rollouts such members are removed. Here the agent must learn that it would not get what it asked
// for.
func refuseConstrained(o *rawjson.Object, member string) error {
	for key, value := range o.Members {
		if forcing(key) && string(value) != "null" {
			member = key
		}
	}

	if member == "" {
		return nil
	}

	return fault.Field(member, "training sampling cannot reproduce constrained logits: %s", member)
}
