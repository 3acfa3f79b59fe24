package react

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/continuation"
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
// answer at all. It also falls back, for the rest of the rollout, where the template does not continue a
// conversation in a way that it can follow: no prompt is other than the template's.
type byTokens struct {
	chat *chat

	// fail rather than continue by messages
	required bool

	// fell back to messages
	messages bool

	// the endpoint has tokenised
	works bool

	// ids of the conversation so far; nil before the first reply
	ids []int32

	// the same, in parts; of the last one, only its end is known
	chain continuation.Chain
	end   continuation.End

	// longest prompt and reply together, in tokens; 0: unknown
	limit  int
	splice continuation.Splicer
}

type tokensRequest struct {
	sampling
	Prompt    []int32 `json:"prompt"`
	ReturnIDs bool    `json:"return_token_ids"`
}

func (c *byTokens) sendMessages(ctx context.Context, id string, add []message) (*answer, error) {
	if c.messages {
		return c.chat.sendMessages(ctx, id, add)
	}

	prompt, err := c.prompt(ctx, add)
	if err == nil {
		var a *answer
		if a, err = c.sample(ctx, id, prompt, add); a != nil || err != nil {
			return a, err
		}

		err = fault.New(fault.NotFound, continuation.NoIDs)
	}

	cannotTokenize := fault.Is(err, fault.Unavailable) && !c.works && !c.required && ctx.Err() == nil
	if !cannotTokenize && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
		// the infrastructure failed; the loop is replayed
		return nil, err
	}

	if c.required {
		return nil, fault.New(fault.Invalid, "continuation %q: %v", rollout.ContinueTokens, err)
	}

	c.fallBack(err)

	return c.chat.sendMessages(ctx, id, add)
}

// fallBack continues by messages from now on.
func (c *byTokens) fallBack(why error) {
	c.messages, c.chat.fallback = true, continuation.ReasonOf(why)
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
		c.chain = continuation.Chain{Opening: all.IDs}

		return all.IDs, err
	}

	link, err := c.splice.Continue(ctx, c.render, c.end, nil, raw)
	if err != nil {
		return nil, err
	}

	next := c.chain.With(link)
	if err := c.audit(ctx, next, raw); err != nil {
		return nil, err
	}

	c.chain = next

	return slices.Concat(c.ids, link.More), nil
}

// render is the continuation.Render of an endpoint that has tokenised.
func (c *byTokens) render(ctx context.Context, messages []json.RawMessage) ([]int32, error) {
	t, err := tokenize(ctx, c.chat.model, messages, true)
	return t.IDs, err
}

// audit compares the next prompt with the template's own.
func (c *byTokens) audit(ctx context.Context, next continuation.Chain, add []json.RawMessage) error {
	all, err := c.render(ctx, slices.Concat(c.chat.messages, add))
	if fault.Is(err, fault.Exhausted) {
		// the template's prompt is too long for the model; ours has kept less, or the call fails as well
		return nil
	}

	if err != nil {
		return err
	}

	return next.Audit(all)
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

	return c.readReply(reply, prompt, add)
}

// request is the body of the call.
func (c *byTokens) request(id string, prompt []int32) ([]byte, error) {
	request := tokensRequest{sampling: c.chat.sampling, Prompt: prompt, ReturnIDs: true}
	// engines default to few tokens
	if c.limit > 0 {
		// SGLang before 0.5.20 refuses calls that may fill the context completely
		room := c.limit - len(prompt) - 1
		if room <= 0 {
			return nil, fault.New(fault.Exhausted,
				"the prompt has %d tokens and leaves no room for a reply: the model's context length is %d",
				len(prompt), c.limit)
		}

		if request.MaxTokens == 0 || request.MaxTokens > room {
			request.MaxTokens = room
		}
	}

	body, err := marshal(request)

	return body, fault.Wrap(fault.Internal, err, "model call %s", id)
}

// readReply reads a reply, and appends it and the messages before it to the conversation. The result is nil if
// the reply has no ids.
func (c *byTokens) readReply(reply gatewayapi.Reply, prompt []int32, add []message) (*answer, error) {
	a, m, err := readReply(reply)
	if err != nil || a.Ended != "" {
		return a, err
	}

	before, sampled := idsOf(reply)
	if len(before) == 0 || len(sampled) == 0 {
		return nil, nil
	}

	c.ids, c.end = slices.Concat(before, sampled), endingOf(reply, sampled)
	if !slices.Equal(before, prompt) {
		if c.required {
			return nil, fault.New(fault.Invalid, "continuation %q: %s", rollout.ContinueTokens, continuation.IDsIgnored)
		}

		c.fallBack(fault.New(fault.NotFound, continuation.IDsIgnored))
	}

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
