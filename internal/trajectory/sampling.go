package trajectory

import (
	"bytes"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// samplingMembers returns the members of requests that control sampling, of all APIs.
func samplingMembers() []string {
	return []string{
		"temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty",
		"frequency_penalty", "seed", "stop", "stop_sequences", "max_tokens", "max_completion_tokens",
		"max_output_tokens", "n",
	}
}

// samplingOf returns a turn's sampling parameters as sent, and the agent's where they differ; nil: none.
func samplingOf(t *rollout.Turn) (sent, requested json.RawMessage) {
	request, err := rawjson.ParseObject(t.Request)
	if err != nil {
		return nil, nil
	}

	changed, err := rawjson.ParseObject(t.Rewritten)
	if err != nil {
		changed = rawjson.NewObject()
	}

	was, is, differs := rawjson.NewObject(), rawjson.NewObject(), false

	for _, key := range samplingMembers() {
		value, ok := request.Get(key)
		if ok = ok && len(value) <= maxMember; ok {
			is.Set(key, bytes.Clone(value))
		}

		switch change, rewritten := changed.Get(key); {
		case rewritten:
			differs = true

			if from := rawjson.MemberOf(change, "from"); from != nil && len(from) <= maxMember {
				was.Set(key, bytes.Clone(from))
			}
		case ok:
			was.Set(key, bytes.Clone(value))
		}
	}

	if !differs {
		return listed(is), nil
	}

	return listed(is), listed(was)
}

// listed returns an object's text; nil: it is empty.
func listed(o *rawjson.Object) json.RawMessage {
	if text := o.Bytes(); string(text) != "{}" {
		return text
	}

	return nil
}
