package react

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// splicer finds the ids that a chat template appends to a reply for the following messages: the rest of the
// end of the turn, the new messages, and the begin of the next reply.
//
// It tokenises two short conversations that differ only in the text of the assistant, followed by the new
// messages. The common end of their prompts begins within the end of the turn. It has the engine's own token
// merges across message boundaries.
//
// What the model sampled of the end of the turn is left out: up to the first occurrence of the token with
// which it stopped. A template may end a turn with several tokens, or with the header of the next message.
type splicer struct {
	// the ids before the common end in the first conversation; nil before the first use
	head []int32
}

// ending is the end of a reply.
type ending struct {
	// the last sampled token
	last int32

	// the model stopped by itself, with the last token; false: the reply was cut off
	stopped bool
}

// probes are the begins of the two conversations.
func probes() [2][]json.RawMessage {
	begin := func(text string) []json.RawMessage {
		return []json.RawMessage{
			json.RawMessage(`{"role":"user","content":"x"}`),
			json.RawMessage(`{"role":"assistant","content":"` + text + `"}`),
		}
	}

	return [2][]json.RawMessage{begin("y"), begin("z")}
}

// continuation returns the ids after a reply for the new messages. A fault.NotFound has the reason why there
// are none.
func (s *splicer) continuation(
	ctx context.Context,
	model agent.Model,
	end ending,
	add []json.RawMessage,
) ([]int32, error) {
	common, err := s.commonEnd(ctx, model, add)
	if err != nil || !end.stopped {
		// the template ends a reply that was cut off
		return common, err
	}

	at := slices.Index(common, end.last)
	if at < 0 {
		return nil, fault.New(fault.NotFound, stopNotFound)
	}

	return common[at+1:], nil
}

// commonEnd returns what the prompts of the two conversations have in common at their ends.
func (s *splicer) commonEnd(ctx context.Context, model agent.Model, add []json.RawMessage) ([]int32, error) {
	begin := probes()

	first, err := tokenize(ctx, model, slices.Concat(begin[0], add), true)
	if err != nil {
		return nil, err
	}

	if n := len(s.head); n > 0 && len(first.IDs) > n && slices.Equal(first.IDs[:n], s.head) {
		return first.IDs[n:], nil
	}

	second, err := tokenize(ctx, model, slices.Concat(begin[1], add), true)
	if err != nil {
		return nil, err
	}

	n := commonEnd(first.IDs, second.IDs)
	if n == 0 || n == len(first.IDs) {
		return nil, fault.New(fault.NotFound, noCommonEnd)
	}

	s.head = first.IDs[:len(first.IDs)-n]

	return first.IDs[len(first.IDs)-n:], nil
}

// commonEnd is the length of the common suffix of two lists.
func commonEnd(a, b []int32) int {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}

	return n
}

// endingOf reads the end of a reply with these sampled ids.
func endingOf(r gatewayapi.Reply, sampled []int32) ending {
	var in struct {
		Choices []struct {
			Finish string `json:"finish_reason"`
			// vLLM's and SGLang's: null or the id of the token, a text for a stop string
			StopReason  json.RawMessage `json:"stop_reason"`
			MatchedStop json.RawMessage `json:"matched_stop"`
		} `json:"choices"`
	}
	if json.Unmarshal(r.Body, &in) != nil || len(in.Choices) == 0 || len(sampled) == 0 {
		return ending{}
	}

	c, last := in.Choices[0], sampled[len(sampled)-1]
	stopped := c.Finish == "stop" && samples(c.StopReason, last) && samples(c.MatchedStop, last)

	return ending{last: last, stopped: stopped}
}

// samples reports whether the token can be that of an engine's stop reason. It is not for a text, and for another
// token, which the engine left out of its list.
func samples(reason json.RawMessage, token int32) bool {
	if len(reason) == 0 || string(reason) == "null" {
		return true
	}

	var id int32

	return json.Unmarshal(reason, &id) == nil && id == token
}
