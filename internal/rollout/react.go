package rollout

import (
	"math"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// React configures the agent "react". It is part of stored histories.
type React struct {
	// Tools is ToolsHermes (default) or ToolsNative.
	Tools string `json:"tools,omitempty" jsonschema:"how tools are given to the model: hermes (in the system prompt) or native (in the model API's tools field)"`

	// 0: DefaultSteps
	MaxSteps int `json:"max_steps,omitempty" jsonschema:"largest number of model calls"`

	// nil: DefaultTemperature
	Temperature     *float64  `json:"temperature,omitempty" jsonschema:"sampling temperature"`
	MaxTokens       int       `json:"max_tokens,omitempty" jsonschema:"largest number of tokens in a reply; 0: no bound"`
	ToolDelayS      float64   `json:"tool_delay_s,omitempty" jsonschema:"pause after each tool call, in seconds"`
	SystemPrompt    string    `json:"system_prompt,omitempty" jsonschema:"system prompt. Default: a prompt that lists the tools"`
	InitialMessages []Message `json:"initial_messages,omitempty" jsonschema:"messages between the system prompt and the instruction"`
	// OnMalformed is MalformedRespond (default) or MalformedFinal, Continuation is ContinueAuto (default),
	// ContinueTokens or ContinueMessages.
	OnMalformed  string `json:"on_malformed,omitempty" jsonschema:"a tool call that cannot be parsed: respond sends the model an error; final takes the message as the final answer"`
	Continuation string `json:"continuation,omitempty" jsonschema:"how each prompt extends the previous one: tokens (by token ids), messages (chat completions), or auto"`
	// EnabledToolsets less DisabledToolsets are the tools of the policy; none enabled: the toolset "default".
	EnabledToolsets  []string `json:"enabled_toolsets,omitempty" jsonschema:"toolsets that the model may call"`
	DisabledToolsets []string `json:"disabled_toolsets,omitempty" jsonschema:"toolsets to remove from the enabled ones"`
}

// Message is a text message of a conversation.
type Message struct {
	Role    string `json:"role" jsonschema:"role of the message: system, user or assistant"`
	Content string `json:"content" jsonschema:"text of the message"`
}

// Values of React's fields.
const (
	// tools in the system prompt, calls in <tool_call> tags
	ToolsHermes = "hermes"

	// the model API's own tools and tool_calls
	ToolsNative = "native"

	// the policy gets an error and goes on
	MalformedRespond = "respond"

	// the call is ignored; a message without a valid call is the final answer
	MalformedFinal = "final"

	// token ids where the endpoint can be prompted with them
	ContinueAuto = "auto"

	// token ids, or the agent fails
	ContinueTokens = "tokens"

	// chat completions
	ContinueMessages = "messages"

	DefaultSteps       = 50
	DefaultTemperature = 0.7
)

const (
	maxSteps = 10_000

	// seconds
	maxToolDelay = 3600.0
	maxInitial   = 1000
)

// Filled returns r with every empty field set. A nil r stands for the defaults.
func (r *React) Filled() React {
	var f React
	if r != nil {
		f = *r
	}

	if f.Tools == "" {
		f.Tools = ToolsHermes
	}

	if f.MaxSteps == 0 {
		f.MaxSteps = DefaultSteps
	}

	if f.Temperature == nil {
		t := DefaultTemperature
		f.Temperature = &t
	}

	if f.OnMalformed == "" {
		f.OnMalformed = MalformedRespond
	}

	if f.Continuation == "" {
		f.Continuation = ContinueAuto
	}

	return f
}

// validate reports the first invalid field.
func (r *React) validate() error {
	f := r.Filled()
	switch {
	case f.Tools != ToolsHermes && f.Tools != ToolsNative:
		return oneOf("react.tools", f.Tools, ToolsHermes, ToolsNative)
	case f.OnMalformed != MalformedRespond && f.OnMalformed != MalformedFinal:
		return oneOf("react.on_malformed", f.OnMalformed, MalformedRespond, MalformedFinal)
	case !slices.Contains([]string{ContinueAuto, ContinueTokens, ContinueMessages}, f.Continuation):
		return oneOf("react.continuation", f.Continuation, ContinueAuto, ContinueTokens, ContinueMessages)
	case f.Continuation == ContinueTokens && f.Tools == ToolsNative:
		return fault.Field("react.continuation",
			"%q needs react.tools %q: engines parse native tool calls in chat completions only",
			ContinueTokens, ToolsHermes)
	case f.MaxSteps < 0 || f.MaxSteps > maxSteps:
		return fault.Field("react.max_steps", "must be 0 (the default) to %d, got %d", maxSteps, f.MaxSteps)
	case !(*f.Temperature >= 0 && !math.IsInf(*f.Temperature, 0)):
		return fault.Field("react.temperature", "must be 0 or more, got %g", *f.Temperature)
	case f.MaxTokens < 0:
		return fault.Field("react.max_tokens", "must be 0 (no bound) or more, got %d", f.MaxTokens)
	case !(f.ToolDelayS >= 0 && f.ToolDelayS <= maxToolDelay):
		return fault.Field("react.tool_delay_s", "must be 0 to %g seconds, got %g", maxToolDelay, f.ToolDelayS)
	}

	return f.validMessages()
}

func (r *React) validMessages() error {
	size := len(r.SystemPrompt)
	for _, m := range r.InitialMessages {
		if !slices.Contains([]string{"system", "user", "assistant"}, m.Role) {
			return fault.Field("react.initial_messages", "must have roles system, user or assistant; got %q", m.Role)
		}

		size += len(m.Content)
	}

	if size > MaxTaskBytes/2 || len(r.InitialMessages) > maxInitial {
		return fault.Field("react.initial_messages",
			"must have at most %d messages, and at most %d bytes together with system_prompt; got %d messages and %d bytes",
			maxInitial, MaxTaskBytes/2, len(r.InitialMessages), size)
	}

	return nil
}

func oneOf(field, got string, values ...string) error {
	return fault.Field(field, "must be one of %s; got %q", strings.Join(values, ", "), got)
}
