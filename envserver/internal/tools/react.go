package tools

import (
	"encoding/json"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// ReactArgs configure the agent "react".
type ReactArgs struct {
	Tools            string        `json:"tools,omitempty" jsonschema:"form of the tools: hermes (in the system prompt) or native (the model API's own)"`
	MaxSteps         int           `json:"max_steps,omitempty" jsonschema:"model calls at most"`
	Temperature      *float64      `json:"temperature,omitempty" jsonschema:"sampling temperature"`
	MaxTokens        int           `json:"max_tokens,omitempty" jsonschema:"tokens of one reply at most; 0 sets no bound"`
	ToolDelayS       float64       `json:"tool_delay_s,omitempty" jsonschema:"pause after each tool call, in seconds"`
	SystemPrompt     string        `json:"system_prompt,omitempty" jsonschema:"system prompt in place of the default one, which lists the tools"`
	InitialMessages  []MessageArgs `json:"initial_messages,omitempty" jsonschema:"messages between the system prompt and the instruction"`
	OnMalformed      string        `json:"on_malformed,omitempty" jsonschema:"a tool call that cannot be read: respond with an error, or take the message as the final answer"`
	Continuation     string        `json:"continuation,omitempty" jsonschema:"how prompts are continued: tokens (ids), messages (chat completions), or auto"`
	EnabledToolsets  []string      `json:"enabled_toolsets,omitempty" jsonschema:"toolsets of the policy"`
	DisabledToolsets []string      `json:"disabled_toolsets,omitempty" jsonschema:"toolsets taken from the enabled ones"`
}

// MessageArgs are a message of a conversation.
type MessageArgs struct {
	Role    string `json:"role" jsonschema:"system, user or assistant"`
	Content string `json:"content" jsonschema:"text of the message"`
}

// reactSchema says what the Go types cannot, and publishes the defaults.
func reactSchema(fields map[string]*jsonschema.Schema) {
	for name, values := range map[string][]any{
		"tools":        {rollout.ToolsHermes, rollout.ToolsNative},
		"on_malformed": {rollout.MalformedRespond, rollout.MalformedFinal},
		"continuation": {rollout.ContinueAuto, rollout.ContinueTokens, rollout.ContinueMessages},
	} {
		fields[name].Enum, fields[name].Default = values, json.RawMessage(strconv.Quote(values[0].(string)))
	}
	fields["max_steps"].Minimum, fields["max_steps"].Default = jsonschema.Ptr(1.0), json.RawMessage(strconv.Itoa(rollout.DefaultSteps))
	fields["temperature"].Minimum, fields["temperature"].Default = jsonschema.Ptr(0.0), json.RawMessage(strconv.FormatFloat(rollout.DefaultTemperature, 'g', -1, 64))
	fields["enabled_toolsets"].Default = json.RawMessage(`["default"]`)
}

// react is the configuration of the agent "react"; nil for every other agent.
func (t *Table) react(a RolloutArgs) (*rollout.React, error) {
	switch {
	case a.Agent != rollout.AgentReact && a.React != nil:
		return nil, fault.Field("react", "configures the agent %q, and the agent is %q", rollout.AgentReact, a.Agent)
	case a.Agent != rollout.AgentReact:
		return nil, nil
	case a.React == nil:
		return &rollout.React{}, nil
	}
	in := a.React
	r := &rollout.React{
		Tools: in.Tools, MaxSteps: in.MaxSteps, Temperature: in.Temperature, MaxTokens: in.MaxTokens, ToolDelayS: in.ToolDelayS,
		SystemPrompt: in.SystemPrompt, OnMalformed: in.OnMalformed, Continuation: in.Continuation,
		EnabledToolsets: in.EnabledToolsets, DisabledToolsets: in.DisabledToolsets,
	}
	for _, m := range in.InitialMessages {
		r.InitialMessages = append(r.InitialMessages, rollout.Message(m))
	}
	if t.o.CheckToolsets == nil {
		return r, nil
	}
	return r, t.o.CheckToolsets(r.EnabledToolsets, r.DisabledToolsets)
}
