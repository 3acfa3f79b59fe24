package tools

import (
	"encoding/json"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/arguments"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxSeconds bounds every duration in arguments, so that their sums do not overflow.
const maxSeconds = float64(rollout.MaxBound / time.Second)

func rolloutSchema(agents []string) (*jsonschema.Schema, error) {
	s, err := arguments.SchemaOf(defaultRolloutArgs(agents[0]))
	if err != nil {
		return nil, err
	}

	constrain(s, agents)

	return s, nil
}

// constrain adds the constraints that Go types cannot express to a schema with the fields of RolloutArgs.
func constrain(s *jsonschema.Schema, agents []string) {
	one := 1
	zero, longest := 0.0, maxSeconds
	s.Properties["instruction"].MinLength = &one
	s.Properties["agent_timeout_s"].ExclusiveMinimum = &zero
	s.Properties["mode"].Enum = []any{string(rollout.TransparentProxy), string(rollout.BlackBox)}
	s.Properties["on_timeout"].Enum = []any{rollout.TimeoutNull}
	s.Properties["verifier"].Properties["grade"].Enum = []any{rollout.GradeFresh, rollout.GradeLive, rollout.GradeShared}
	s.Properties["on_disconnect"].Enum = []any{onDisconnectContinue, onDisconnectAbort}
	s.Properties["messages"].Enum = []any{messagesDelta, string(rollout.MessagesFull), string(rollout.MessagesNone)}
	s.Properties["translate"].Enum = []any{string(rollout.TranslateChat), translateNone}
	s.Properties["continuation"].Enum = []any{
		string(rollout.ContinuationAuto), string(rollout.ContinuationMessages), string(rollout.ContinuationRequired),
	}
	s.Properties["user_turn"].Enum = []any{string(rollout.UserTurnContinue), string(rollout.UserTurnRender)}
	s.Properties["on_engine_fault"].Enum = []any{
		string(rollout.FaultKeep), string(rollout.FaultMask), string(rollout.FaultReplace),
	}

	s.Properties["purpose"].Enum = []any{purposeAuto, string(rollout.PurposeTrain), string(rollout.PurposeEval)}
	for _, a := range agents {
		s.Properties["agent"].Enum = append(s.Properties["agent"].Enum, a)
	}

	s.Properties["agent_timeout_s"].Maximum = &longest
	for _, p := range s.Properties["price"].Properties {
		p.Minimum = &zero
	}

	limitsSchema(s.Properties["limits"])
	sandboxSchema(s.Properties["sandbox"].Properties)
	reactSchema(s.Properties["react"].Properties)

	for _, p := range []string{"max_steps", "idle_s"} {
		s.Properties["episode"].Properties[p].Minimum = &zero
	}

	s.Properties["episode"].Properties["idle_s"].Maximum = &longest
}

// sandboxSchema adds the constraints that Go types cannot express. The one value of network is a const
// rather than an enum: decode does not check a const, so the tool refuses other values with a reason.
func sandboxSchema(fields map[string]*jsonschema.Schema) {
	memory, network := fields["memory"], fields["network"]
	memory.Type, memory.Types = "", []string{"string", "integer"}
	network.Const, network.Default = jsonschema.Ptr[any](noNetwork), json.RawMessage(`"none"`)
}
