package dialect

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// maxRemoved bounds the removed members in a record; maxRemovedValue bounds the stored part of each value, in bytes.
const (
	maxRemoved      = 64
	maxRemovedValue = 256
)

// takes reports whether a member of a request is forwarded. All others are removed: engines have parameters
// that force tokens (guided_choice, allowed_token_ids, logit_bias), change the prompt (chat_template,
// continue_final_message) or change the reply (echo, prompt_logprobs), and forced tokens look like sampled
// ones. A new parameter of an engine is removed until it is listed here.
func takes(api reply.API, key string) bool {
	switch api {
	case reply.Completions:
		return completionsTakes(key)
	case reply.Responses:
		return responsesTakes(key)
	case reply.Messages:
		return messagesTakes(key)
	default:
		return chatTakes(key)
	}
}

func completionsTakes(key string) bool {
	switch key {
	case "model",
		"prompt",
		"suffix",
		MaxTokens,
		"temperature",
		"top_p",
		"top_k",
		"min_p",
		"seed",
		"stop",
		"stream",
		StreamOptions,
		"n",
		"best_of",
		"echo",
		"logprobs",
		ReturnIDs,
		ReturnVersions,
		"presence_penalty",
		"frequency_penalty",
		"user",
		CacheSalt,
		extraKey:
		return true
	}

	return false
}

func responsesTakes(key string) bool {
	switch key {
	case "model",
		"input",
		"instructions",
		"max_output_tokens",
		"temperature",
		"top_p",
		"top_k",
		"top_logprobs",
		"stream",
		StreamOptions,
		"store",
		"background",
		Include,
		"tools",
		"tool_choice",
		"parallel_tool_calls",
		"max_tool_calls",
		"previous_response_id",
		"conversation",
		"prompt",
		"reasoning",
		"text",
		"truncation",
		"metadata",
		"user",
		"service_tier",
		"prompt_cache_key",
		"prompt_cache_retention",
		"safety_identifier",
		ResponseMessages,
		templateOptions,
		CacheSalt,
		"client_metadata":
		return true
	}

	return false
}

func messagesTakes(key string) bool {
	switch key {
	case "model",
		"messages",
		"system",
		MaxTokens,
		"temperature",
		"top_p",
		"top_k",
		"stop_sequences",
		"stream",
		"tools",
		"tool_choice",
		"metadata",
		"thinking",
		"service_tier",
		"container",
		"mcp_servers",
		"context_management",
		"cache_control",
		"betas",
		"output_config",
		"output_format",
		templateOptions:
		return true
	}

	return false
}

func chatTakes(key string) bool {
	switch key {
	case "model",
		"messages",
		"tools",
		"tool_choice",
		"parallel_tool_calls",
		"functions",
		"function_call",
		MaxTokens,
		MaxCompletionTokens,
		"temperature",
		"top_p",
		"top_k",
		"min_p",
		"seed",
		"stop",
		"stream",
		StreamOptions,
		"n",
		"logprobs",
		"top_logprobs",
		ReturnIDs,
		ReturnVersions,
		"presence_penalty",
		"frequency_penalty",
		"response_format",
		"reasoning_effort",
		"reasoning",
		"thinking",
		"verbosity",
		"modalities",
		"user",
		"metadata",
		"store",
		"service_tier",
		"prompt_cache_key",
		"prompt_cache_retention",
		"safety_identifier",
		CacheSalt,
		extraKey,
		templateOptions:
		return true
	}

	return false
}

// templateOptions is the member with the arguments of an engine's chat template.
const templateOptions = "chat_template_kwargs"

// promptOptions are template arguments that replace the template, or continue the agent's own text as if it
// were sampled.
func promptOptions() []string {
	return []string{"chat_template", "tokenize", "add_generation_prompt", "continue_final_message"}
}

// restrict removes and records the members that are not forwarded.
func (d *Dialect) restrict(o *Draft) {
	o.noteRemoved(o.Filter(func(key string) bool { return takes(d.API, key) }))

	raw, ok := o.Get(templateOptions)
	if !ok {
		return
	}

	options, err := rawjson.ParseObject(raw)
	if err != nil {
		o.Remove(templateOptions)
		return
	}

	if len(options.Filter(func(key string) bool { return !slices.Contains(promptOptions(), key) })) > 0 {
		o.Set(templateOptions, options.Bytes())
	}
}

// removeStrict removes "strict" from the tools: engines sample calls of strict tools under a grammar.
func (d *Draft) removeStrict() {
	tools, _ := d.Get("tools")
	// a key may be escaped
	if !bytes.Contains(tools, []byte("strict")) && !bytes.Contains(tools, []byte(`\u`)) {
		return
	}

	list, loosened := rawjson.Cursor{Src: tools}, []byte(nil)
	if list.Peek() != '[' {
		return
	}

	changed := false

	for n := range list.Elements {
		if n > 0 {
			loosened = append(loosened, ',')
		}

		tool, strict := withoutStrict(list.Skip())
		if o, err := rawjson.ParseObject(tool); err == nil {
			if function, inner := withoutStrict(o.Or("function", "null")); inner {
				o.Set("function", function)
				tool, strict = o.Bytes(), true
			}
		}

		loosened, changed = append(loosened, tool...), changed || strict
	}

	if !changed || !list.AtEnd() {
		return
	}

	d.noteChange("tools.strict", []byte("true"), nil)
	d.Object.Set("tools", rawjson.AppendList(nil, loosened))
}

// withoutStrict returns a tool or function without the member "strict", and whether it was on.
func withoutStrict(object []byte) ([]byte, bool) {
	o, err := rawjson.ParseObject(object)
	if err != nil || !on(o, "strict") {
		return object, false
	}

	o.Remove("strict")

	return o.Bytes(), true
}

// without removes the members that are not allowed.
func without(o *rawjson.Object, allowed []string) []rawjson.Removed {
	return o.Filter(func(key string) bool { return slices.Contains(allowed, key) })
}

// noteRemoved records removed members.
func (d *Draft) noteRemoved(removed []rawjson.Removed) {
	for i, m := range removed {
		if i == maxRemoved {
			d.noteChange("…", fmt.Appendf(nil, "%d more", len(removed)-maxRemoved), nil)
			return
		}

		d.noteChange(m.Key, cutShort(m.Value), nil)
	}
}

func cutShort(value []byte) []byte {
	if len(value) > maxRemovedValue {
		return append(value[:maxRemovedValue:maxRemovedValue], "…"...)
	}

	return value
}

// constraint returns the member that makes the engine choose tokens under a grammar: an output format, or a
// tool that must be called; "": none. Agents need both, so they are forwarded, but their output is not
// sampled freely from the policy.
func constraint(o *rawjson.Object) string {
	for _, key := range []string{"response_format", "output_format"} {
		if raw, ok := o.Get(key); ok && string(raw) != "null" && kindOf(raw) != "text" {
			return key
		}
	}

	for _, key := range []string{"tool_choice", "function_call"} {
		raw, ok := o.Get(key)
		if !ok {
			continue
		}

		if free := string(raw) == "null" || slices.Contains([]string{
			"auto", "none",
		}, rawjson.TextOf(raw)+kindOf(raw)); !free {
			return key
		}
	}

	for _, key := range []string{"text", "output_config"} {
		raw, ok := o.Get(key)
		if !ok {
			continue
		}

		if format := member(raw, "format"); len(format) > 0 && string(format) != "null" && kindOf(format) != "text" {
			return key
		}
	}

	return ""
}

// kindOf returns the type member of an object.
func kindOf(object []byte) string { return rawjson.TextOf(member(object, "type")) }

// member returns a member's value however its key is escaped; nil: absent.
func member(object []byte, key string) []byte {
	o, err := rawjson.ParseObject(object)
	if err != nil {
		return nil
	}

	value, _ := o.Get(key)

	return value
}
