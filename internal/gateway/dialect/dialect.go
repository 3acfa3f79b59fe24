package dialect

import (
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/translate/messages"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/translate/responses"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Dialect is what differs between the APIs on the way of a call.
type Dialect struct {
	API reply.API
	// bounds are the members that bound what is generated; a call without any gets the first.
	bounds []string
	// counts: the counts come at the end of a stream only when stream_options asks for them.
	counts bool
	// template: the engine makes the prompt, by a template that chat_template_kwargs may switch.
	template bool
	// check refuses what could not be captured; nil: nothing.
	check func(o *rawjson.Object) error
	// ids: an engine that gives the tokens' ids gives them here, and one that refuses to is of no use.
	ids bool
	// capture asks for token ids and logprobs; nil: the API has none to give.
	capture func(d *Draft, m rollout.Model)
	// headers of the agent go upstream beside those of every call.
	headers []string
	// authorize puts the key in.
	Authorize func(h http.Header, key string)
	// errorEvent is the name of an event that tells an error; "": it bears none.
	errorEvent string
	// refusal is an error's body.
	refusal func(text, code string) []byte
	// event is an error's event in a stream that the agent has seen so far; nil: the body is its data.
	event func(text, code string, seen []byte) []byte
	// translation writes calls as chat completions; nil: the API needs none.
	translation *translation
	// list: a stream is one list of objects, and not events.
	list bool
}

// Chat is the dialect of chat completions.
func Chat() *Dialect {
	return &Dialect{
		API: reply.Chat, bounds: []string{MaxTokens, MaxCompletionTokens}, counts: true, template: true, ids: true,
		check: oneChoice, capture: captureChat, Authorize: bearer, refusal: openAIRefusal,
	}
}

// All returns the dialects of all model APIs that go upstream as they are; see Google.
func All() []*Dialect {
	return []*Dialect{
		Chat(),
		{
			API: reply.Completions, bounds: []string{MaxTokens}, counts: true, ids: true,
			check: onePrompt, capture: captureText, Authorize: bearer, refusal: openAIRefusal,
		},
		{
			API: reply.Responses, bounds: []string{"max_output_tokens"}, template: true,
			check: inForeground, capture: captureResponse, Authorize: bearer, errorEvent: "error", refusal: openAIRefusal, event: responsesError,
			translation: &translation{responses.Members(), responses.Translate, render.Response},
		},
		{
			API: reply.Messages, bounds: []string{MaxTokens}, template: true,
			headers: []string{"Anthropic-Version", "Anthropic-Beta"}, Authorize: anthropicKey, errorEvent: "error", refusal: anthropicRefusal,
			translation: &translation{messages.Members(), messages.Translate, render.Message},
		},
	}
}

// HasLogprobs says whether the API has log probabilities.
func (d *Dialect) HasLogprobs() bool { return d.capture != nil }

func oneChoice(o *rawjson.Object) error {
	if n, ok := o.Get("n"); ok && string(n) != "1" && string(n) != "null" {
		return fault.Field("n", "must be 1: one choice is captured for each call")
	}
	return nil
}

// onePrompt refuses what gives several choices, and what puts the prompt in front of the completion: the tokens of
// prompt and completion could not be separated.
func onePrompt(o *rawjson.Object) error {
	if on(o, "echo") {
		return fault.Field("echo", "must be false: the prompt's tokens would count as sampled ones")
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

// on says whether a switch may be on: model servers take 1 and "yes" for true.
func on(o *rawjson.Object, key string) bool {
	raw, ok := o.Get(key)
	return ok && string(raw) != "false" && string(raw) != "null"
}

func bearer(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

// anthropicKey sends the key as Anthropic has it, and also the other way: vLLM knows no x-api-key on this API. Anthropic's own
// keys go the first way alone, for there the other is a login's, and wins.
func anthropicKey(h http.Header, key string) {
	h.Set("X-API-Key", key)
	if !strings.HasPrefix(key, "sk-ant-") {
		bearer(h, key)
	}
}
