package tools

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// reactSchema adds the constraints that Go types cannot express, and the defaults.
func reactSchema(fields map[string]*jsonschema.Schema) {
	for name, values := range map[string][]any{
		"tools":        {rollout.ToolsHermes, rollout.ToolsNative},
		"on_malformed": {rollout.MalformedRespond, rollout.MalformedFinal},
		"continuation": {rollout.ContinueAuto, rollout.ContinueTokens, rollout.ContinueMessages},
	} {
		fields[name].Enum, fields[name].Default = values, json.RawMessage(strconv.Quote(values[0].(string)))
	}

	fields["max_steps"].Minimum, fields["max_steps"].Default = jsonschema.Ptr(1.0), json.RawMessage(
		strconv.Itoa(rollout.DefaultSteps),
	)
	fields["temperature"].Minimum, fields["temperature"].Default = jsonschema.Ptr(0.0), json.RawMessage(
		strconv.FormatFloat(rollout.DefaultTemperature, 'g', -1, 64),
	)
	fields["enabled_toolsets"].Default = json.RawMessage(`["default"]`)
}

// react returns the configuration of the agent "react"; nil for every other agent.
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

// EpisodeArgs configure the agent "interactive".
type EpisodeArgs struct {
	EnabledToolsets  []string `json:"enabled_toolsets,omitempty" jsonschema:"toolsets that the client may call"`
	DisabledToolsets []string `json:"disabled_toolsets,omitempty" jsonschema:"toolsets to remove from the enabled ones"`
	MaxSteps         int      `json:"max_steps,omitempty" jsonschema:"largest number of tool calls; 0: 16000"`
	IdleS            float64  `json:"idle_s,omitempty" jsonschema:"seconds without a call after which the episode is closed"`
}

// episode returns the configuration of the agent "interactive"; nil for every other agent.
func (t *Table) episode(a RolloutArgs) (*rollout.Episode, error) {
	switch {
	case a.Agent != rollout.AgentInteractive && a.Episode != nil:
		return nil, fault.Field("episode", "configures the agent %q, and the agent is %q",
			rollout.AgentInteractive, a.Agent)
	case a.Agent != rollout.AgentInteractive:
		return nil, nil
	case a.Episode == nil:
		return &rollout.Episode{}, nil
	}

	in := a.Episode

	e := &rollout.Episode{
		EnabledToolsets: in.EnabledToolsets, DisabledToolsets: in.DisabledToolsets, MaxSteps: in.MaxSteps,
		Idle: time.Duration(in.IdleS * float64(time.Second)),
	}
	if t.o.CheckToolsets == nil {
		return e, nil
	}

	return e, t.o.CheckToolsets(e.EnabledToolsets, e.DisabledToolsets)
}

// episodeInstruction is the default instruction of an episode.
const episodeInstruction = "Use the tools of this environment."

// StartEpisode starts a rollout of the agent "interactive". It drops arguments that start_rollout does not
// know, as the reference does with those of a reset.
func (t *Table) StartEpisode(ctx context.Context, session Session, args map[string]any) (rollout.State, string, error) {
	start := t.Start()
	known := map[string]any{"instruction": episodeInstruction}

	for name, v := range args {
		if start.InputSchema.Properties[name] != nil && v != nil && v != "" {
			known[name] = v
		}
	}

	known["agent"] = rollout.AgentInteractive
	b, err := t.startRollout(ctx, Call{Tool: startRollout, Args: known, Session: session})
	instruction, _ := known["instruction"].(string)

	return b.state, instruction, err
}
