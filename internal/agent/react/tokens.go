package react

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// byTokens continues by token ids: the next prompt is exactly the ids so far and the ids of the new
// messages, made by the engine's template and tokenizer. Sampled tokens are never tokenised again, so that
// a rollout is one sequence.
//
// Unless the job requires ids, it falls back to chat completions for an endpoint that does not accept or
// return ids, or that answers model calls but has never tokenised. It waits for an endpoint that does not
// answer at all. The first prompt decides for the whole rollout.
type byTokens struct {
	chat *chat

	// fail rather than continue by messages
	required bool

	// fell back to messages
	messages bool

	// the endpoint has tokenised
	works bool

	// of the conversation so far; nil before the first reply
	ids []int32

	// of prompt and reply together, in tokens; 0: unknown
	limit  int
	splice splicer
}

type tokensRequest struct {
	sampling
	Prompt    []int32 `json:"prompt"`
	ReturnIDs bool    `json:"return_token_ids"`
}

func (c *byTokens) ask(ctx context.Context, id string, add []message) (*answer, error) {
	if c.messages {
		return c.chat.ask(ctx, id, add)
	}

	prompt, err := c.prompt(ctx, add)
	if err == nil {
		var a *answer
		if a, err = c.sample(ctx, id, prompt, add); a != nil || err != nil {
			return a, err
		}

		err = fault.New(fault.NotFound, "the endpoint's reply has no token ids")
	}

	cannotTokenize := fault.Is(err, fault.Unavailable) && !c.works && !c.required && ctx.Err() == nil
	if !cannotTokenize && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
		// the infrastructure failed; the loop is replayed
		return nil, err
	}

	if c.required {
		return nil, fault.New(fault.Invalid, "continuation %q: %v", rollout.ContinueTokens, err)
	}

	c.messages = true

	return c.chat.ask(ctx, id, add)
}

// prompt returns the ids of the conversation so far and the new messages.
func (c *byTokens) prompt(ctx context.Context, add []message) ([]int32, error) {
	raw, err := encode(add)
	if err != nil {
		return nil, err
	}

	if c.ids == nil {
		all, err := tokenize(ctx, c.chat.model, raw, c.required)
		c.limit, c.works = all.MaxLength, err == nil

		return all.IDs, err
	}

	more, err := c.splice.continuation(ctx, c.chat.model, raw)
	if err != nil {
		return nil, err
	}

	return splice(c.ids, more), nil
}

// splice appends a continuation. The continuation begins with the end-of-turn token, which is skipped if
// the model has sampled it.
func splice(ids, more []int32) []int32 {
	if len(ids) > 0 && len(more) > 0 && ids[len(ids)-1] == more[0] {
		more = more[1:]
	}

	return slices.Concat(ids, more)
}

// sample requests a reply to the prompt. The result is nil if the reply has no ids: the endpoint returns
// none, or the recorded call before a crash used messages.
func (c *byTokens) sample(ctx context.Context, id string, prompt []int32, add []message) (*answer, error) {
	body, err := c.request(id, prompt)
	if err != nil {
		return nil, err
	}

	reply, err := c.chat.model.Call(ctx, id, "completions", body)
	if err != nil {
		return nil, err
	}

	return c.take(reply, add)
}

// request is the body of the call.
func (c *byTokens) request(id string, prompt []int32) ([]byte, error) {
	request := tokensRequest{sampling: c.chat.sampling, Prompt: prompt, ReturnIDs: true}
	// engines default to few tokens
	if c.limit > 0 {
		// SGLang before 0.5.20 refuses calls that may fill the context completely
		room := c.limit - len(prompt) - 1
		if room <= 0 {
			return nil, fault.New(
				fault.Exhausted,
				"the prompt has %d tokens and leaves no room for a reply: the model's context length is %d",
				len(prompt),
				c.limit,
			)
		}

		if request.MaxTokens == 0 || request.MaxTokens > room {
			request.MaxTokens = room
		}
	}

	body, err := marshal(request)

	return body, fault.Wrap(fault.Internal, err, "model call %s", id)
}

// take reads a reply, and appends it and the messages before it to the conversation. The result is nil if
// the reply has no ids.
func (c *byTokens) take(reply gatewayapi.Reply, add []message) (*answer, error) {
	a, m, err := readReply(reply)
	if err != nil || a.Ended != "" {
		return a, err
	}

	before, sampled := idsOf(reply)
	if len(before) == 0 || len(sampled) == 0 {
		return nil, nil
	}

	c.ids = slices.Concat(before, sampled)
	// in case later calls use messages
	return a, c.chat.append(append(slices.Clone(add), m)...)
}

// idsOf returns the engine's ids of a reply's prompt and of the sampled tokens.
func idsOf(r gatewayapi.Reply) (prompt, sampled []int32) {
	var in struct {
		Prompt  []int32 `json:"prompt_token_ids"`
		Choices []struct {
			Prompt  []int32 `json:"prompt_token_ids"`
			Sampled []int32 `json:"token_ids"`
		} `json:"choices"`
	}
	if json.Unmarshal(r.Body, &in) != nil || len(in.Choices) == 0 {
		return nil, nil
	}

	if prompt = in.Prompt; len(prompt) == 0 {
		prompt = in.Choices[0].Prompt
	}

	return prompt, in.Choices[0].Sampled
}

func encode(messages []message) ([]json.RawMessage, error) {
	list := make([]json.RawMessage, 0, len(messages))
	for _, m := range messages {
		raw, err := marshal(m)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "encode a message")
		}

		list = append(list, raw)
	}

	return list, nil
}
