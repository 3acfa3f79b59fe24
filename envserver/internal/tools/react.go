package tools

import (
	"encoding/json"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

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
	if t.o.CheckToolsets == nil {
		return a.React, nil
	}
	return a.React, t.o.CheckToolsets(a.React.EnabledToolsets, a.React.DisabledToolsets)
}
