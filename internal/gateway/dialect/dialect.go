package dialect

import (
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/messages"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/responses"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Dialect has the differences between the APIs for one call.
type Dialect struct {
	API reply.API
	// bounds are the members that bound the output; a call without any gets the first.
	bounds []string
	// counts: a stream ends with the counts only if stream_options asks for them.
	counts bool
	// template: the engine makes the prompt by a template that chat_template_kwargs may change.
	template bool
	// check refuses requests that cannot be captured; nil: none.
	check func(o *rawjson.Object) error
	// ids: the API can return token ids; an engine that refuses them cannot be used.
	ids bool
	// capture asks for token ids and logprobs; nil: the API has none.
	capture func(d *Draft, m rollout.Model)
	// headers are the agent's headers that are forwarded besides those of every API.
	headers []string
	// Authorize sets the API key.
	Authorize func(h http.Header, key string)
	// errorEvent is the name of an error event; "": events have no name.
	errorEvent string
	// refusal returns the body of an error.
	refusal func(text, code string) []byte
	// event returns an error event for a stream, given what the agent has seen of it; nil: the body is the
	// event's data.
	event func(text, code string, seen []byte) []byte
	// translation translates calls into chat completions; nil: not needed.
	translation *translation
	// list: a stream is one list of objects instead of events.
	list bool
}

// Chat is the dialect of chat completions.
func Chat() *Dialect {
	return &Dialect{
		API: reply.Chat, bounds: []string{MaxTokens, MaxCompletionTokens}, counts: true, template: true, ids: true,
		check: oneChoice, capture: captureChat, Authorize: bearer, refusal: openAIRefusal,
	}
}

// All returns the dialects of all model APIs that can be forwarded untranslated; see Google.
func All() []*Dialect {
	return []*Dialect{
		Chat(),
		{
			API: reply.Completions, bounds: []string{MaxTokens}, counts: true, ids: true,
			check: onePrompt, capture: captureText, Authorize: bearer, refusal: openAIRefusal,
		},
		{
			API:         reply.Responses,
			bounds:      []string{"max_output_tokens"},
			template:    true,
			check:       inForeground,
			capture:     captureResponse,
			Authorize:   bearer,
			errorEvent:  "error",
			refusal:     openAIRefusal,
			event:       responsesError,
			translation: &translation{responses.Members(), responses.Translate, render.Response},
		},
		{
			API:         reply.Messages,
			bounds:      []string{MaxTokens},
			template:    true,
			headers:     []string{"Anthropic-Version", "Anthropic-Beta"},
			Authorize:   anthropicKey,
			errorEvent:  "error",
			refusal:     anthropicRefusal,
			translation: &translation{messages.Members(), messages.Translate, render.Message},
		},
	}
}

// HasLogprobs reports whether the API has log probabilities.
func (d *Dialect) HasLogprobs() bool { return d.capture != nil }

func oneChoice(o *rawjson.Object) error {
	if n, ok := o.Get("n"); ok && string(n) != "1" && string(n) != "null" {
		return fault.Field("n", "must be 1: one choice is captured for each call")
	}

	return nil
}

// onePrompt refuses several choices, and a prompt that is echoed in front of the completion: their tokens
// could not be separated.
func onePrompt(o *rawjson.Object) error {
	if on(o, "echo") {
		return fault.Field("echo", "must be false: the prompt's tokens would count as sampled")
	}

	if best, ok := o.Get("best_of"); ok && string(best) != "1" && string(best) != "null" {
		return fault.Field("best_of", "must be 1: one choice is captured for each call")
	}

	if prompt, _ := o.Get("prompt"); Several(prompt) {
		return fault.Field("prompt", "must be one: one choice is captured for each call")
	}

	return oneChoice(o)
}

func inForeground(o *rawjson.Object) error {
	if on(o, "background") {
		return fault.Field("background", "must be false: a reply is captured while it is being made")
	}

	return nil
}

// on reports whether a switch may be on: model servers also accept 1 and "yes" as true.
func on(o *rawjson.Object, key string) bool {
	raw, ok := o.Get(key)
	return ok && string(raw) != "false" && string(raw) != "null"
}

func bearer(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

// anthropicKey sends the key in both forms, since vLLM does not read x-api-key on this API. Anthropic's own
// keys are sent only as x-api-key: Anthropic takes the other form for a login token and prefers it.
func anthropicKey(h http.Header, key string) {
	h.Set("X-API-Key", key)

	if !strings.HasPrefix(key, "sk-ant-") {
		bearer(h, key)
	}
}
