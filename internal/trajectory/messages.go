package trajectory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"slices"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// request returns the members of a request that clients read: its parameters, the names of its tools, and
// the selected part of its messages.
func (c *Compactor) request(t *rollout.Turn) map[string]any {
	out := members(
		t.Request,
		"model",
		"temperature",
		"top_p",
		"max_tokens",
		"max_completion_tokens",
		"max_output_tokens",
		"logprobs",
		"top_logprobs",
		"stream",
	)

	o, err := rawjson.ParseObject(t.Request)
	if err != nil || c.Messages == rollout.MessagesNone {
		// not an object: there are no members
		return out
	}

	if tools := toolNames(o.Or("tools", "null")); tools != nil {
		out["tools"] = tools
	}

	if c.Messages == rollout.MessagesFull {
		c.addPrompt(o, out)
	} else {
		c.delta(t, o, out)
	}

	return out
}

// addPrompt adds the prompt as it was sent.
func (c *Compactor) addPrompt(o *rawjson.Object, out map[string]any) {
	for _, key := range []string{"messages", "prompt", "system", "instructions", "input"} {
		if v, ok := o.Get(key); ok {
			c.addMember(out, key, bytes.Clone(v))
		}
	}
}

// delta adds the messages that the previous turn of the lineage did not have, and the number that it had.
// System messages are in each turn, shortened: trainers use them to distinguish an agent's calls from
// titles and summaries.
func (c *Compactor) delta(t *rollout.Turn, o *rawjson.Object, out map[string]any) {
	for _, key := range []string{"system", "instructions"} {
		if v, ok := o.Get(key); ok {
			c.addMember(out, key, brief(v))
		}
	}

	for _, key := range []string{"messages", "input"} {
		list, _ := o.Get(key)

		all, ok := elements(list)
		if !ok {
			continue
		}

		n := c.sharedPrefix(t, all)
		kept := []json.RawMessage{}

		for i, m := range all {
			switch role := rawjson.TextOf(rawjson.MemberOf(m, "role")); {
			case role == "system" || role == "developer":
				kept = append(kept, briefMessage(m))
			case i >= n:
				kept = append(kept, m)
			}
		}

		text, err := marshal(kept)
		if err == nil && c.addMember(out, key, text) && n > 0 {
			out["messages_before"] = n
		}
	}
}

// sharedPrefix returns how many of a turn's messages the previous turn of its lineage had; 0 if it had others.
func (c *Compactor) sharedPrefix(t *rollout.Turn, all []json.RawMessage) int {
	digests := make([]uint64, len(all))
	for i, m := range all {
		h := fnv.New64a()
		// never fails
		_, _ = h.Write(m)
		digests[i] = h.Sum64()
	}

	if c.before == nil {
		c.before = map[string][]uint64{}
	}

	lineage := string(t.Kind) + " " + t.Lineage
	before := c.before[lineage]

	c.before[lineage] = digests
	if len(before) > len(digests) || !slices.Equal(before, digests[:len(before)]) {
		return 0
	}

	return len(before)
}

// addMember adds a member if the result has room for it, and else names it in "omitted".
func (c *Compactor) addMember(out map[string]any, key string, value json.RawMessage) bool {
	if c.requests+len(value) > maxRequests {
		omitted, _ := out["omitted"].([]string)
		out["omitted"] = append(omitted, key)

		return false
	}

	c.requests += len(value)
	out[key] = value

	return true
}

// maxBrief is the length of a system message in a delta, in characters.
const maxBrief = 200

// briefMessage returns a system message with shortened content.
func briefMessage(m json.RawMessage) json.RawMessage {
	o, err := rawjson.ParseObject(m)
	if err != nil {
		return m
	}

	o.Set("content", brief(o.Or("content", "null")))

	return bytes.Clone(o.Bytes())
}

// brief returns the beginning of a text and the digest of all of it, so that different texts stay
// different. A short text is returned unchanged.
func brief(v json.RawMessage) json.RawMessage {
	s := string(v)
	if json.Unmarshal(v, &s) != nil {
		// a list of parts
		s = string(v)
	}

	if short := text.Head(s, maxBrief); short != s {
		sum := sha256.Sum256([]byte(s))
		s = short + "… sha256:" + hex.EncodeToString(sum[:8])
	} else {
		return bytes.Clone(v)
	}

	return rawjson.Quote(s)
}

// toolNames returns a request's tools with only their names, in the form of chat completions; nil: none.
func toolNames(tools json.RawMessage) []any {
	var list []struct {
		Name     string                `json:"name"`
		Function struct{ Name string } `json:"function"`
	}
	if json.Unmarshal(tools, &list) != nil {
		return nil
	}

	var out []any

	for i, tool := range list {
		if i == maxTools {
			break
		}

		name := text.Head(tool.Name+tool.Function.Name, maxBrief)
		out = append(out, map[string]any{"type": "function", "function": map[string]string{"name": name}})
	}

	return out
}

// maxTools bounds the tools in a compact turn.
const maxTools = 128

// response returns the model's reply without logprobs and ids, and its end.
func (c *Compactor) response(t *rollout.Turn) map[string]any {
	out := members(t.Response, "usage")
	if _, ok := out["usage"]; !ok {
		out["usage"] = nil
	}

	out["finish_reason"] = nil
	if t.FinishReason != "" {
		out["finish_reason"] = t.FinishReason
	}

	if len(t.UpstreamError) > 0 && string(t.UpstreamError) != "null" {
		out["error"] = shortError(t.UpstreamError)
	}

	o, err := rawjson.ParseObject(t.Response)
	if err != nil {
		return out
	}

	for _, key := range []string{"choices", "output", "content"} {
		v, ok := o.Get(key)
		if !ok {
			continue
		}

		if v = withoutLogprobs(v); c.replies+len(v) > maxReplies {
			out["omitted"] = []string{key}
			continue
		}

		c.replies += len(v)
		out[key] = json.RawMessage(v)
	}

	return out
}

// withoutLogprobs returns a list of choices or items without the data that the turn already has.
func withoutLogprobs(list json.RawMessage) json.RawMessage {
	all, ok := elements(list)
	if !ok {
		return bytes.Clone(list)
	}

	for i, item := range all {
		if o, err := rawjson.ParseObject(item); err == nil {
			o.Remove("logprobs")
			all[i] = o.Bytes()
		}
	}

	out, err := marshal(all)
	if err != nil {
		return bytes.Clone(list)
	}

	return out
}

// elements returns the elements of a JSON list, never nil; they alias it. A reply with log probabilities is
// long, and encoding/json would read each byte three times.
func elements(list []byte) (all []json.RawMessage, ok bool) {
	all = []json.RawMessage{}

	c := rawjson.Cursor{Src: list}
	for range c.Elements {
		all = append(all, c.Skip())
	}

	return all, c.AtEnd()
}
