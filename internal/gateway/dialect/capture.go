package dialect

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

func captureChat(d *Draft, m rollout.Model) {
	if m.Logprobs {
		d.Set("logprobs", []byte("true"))

		if want := max(m.TopLogprobs, number(d.Object, "top_logprobs")); want > 0 {
			d.Set("top_logprobs", strconv.AppendInt(nil, int64(want), 10))
		}
	}

	if m.TokenIDs {
		askIDs(d)
	}
}

// askIDs asks for token ids, and for the weights that sampled each of them, which vLLM names since 0.33.
func askIDs(d *Draft) {
	d.Set(ReturnIDs, []byte("true"))
	d.Set(ReturnVersions, []byte("true"))
}

// captureText keeps the number of alternatives that the agent asked for: the API's lists have no order by
// which to cut them.
func captureText(d *Draft, m rollout.Model) {
	if own, ok := d.Get("logprobs"); m.Logprobs && (!ok || string(own) == "null") {
		d.Set("logprobs", strconv.AppendInt(nil, int64(m.TopLogprobs), 10))
	}

	if m.TokenIDs {
		askIDs(d)
	}
}

// captureResponse asks vLLM for the messages with their token ids, and for the logprobs of texts, which
// then cover all sampled tokens.
func captureResponse(d *Draft, m rollout.Model) {
	if m.TokenIDs {
		d.Set(ResponseMessages, []byte("true"))
	}

	own, _ := d.Get(Include)

	wanted, ok := including(own, textLogprobs)
	if !m.Logprobs || !ok {
		return
	}

	d.Set(Include, wanted)

	if want := max(m.TopLogprobs, number(d.Object, "top_logprobs")); want > 0 {
		d.Set("top_logprobs", strconv.AppendInt(nil, int64(want), 10))
	}
}

// textLogprobs is the value of include for logprobs.
const textLogprobs = "message.output_text.logprobs"

// including adds a string to a list of strings unless the list has it; false: the agent's value is not a list.
func including(list []byte, one string) ([]byte, bool) {
	var has []json.RawMessage
	if len(list) > 0 && json.Unmarshal(list, &has) != nil {
		return nil, false
	}

	quoted := []byte(`"` + one + `"`)

	if slices.ContainsFunc(has, func(raw json.RawMessage) bool { return bytes.Equal(raw, quoted) }) {
		return bytes.Clone(list), true
	}

	if len(has) == 0 {
		return slices.Concat([]byte("["), quoted, []byte("]")), true
	}

	return slices.Concat(list[:bytes.LastIndexByte(list, ']')], []byte(","), quoted, []byte("]")), true
}
