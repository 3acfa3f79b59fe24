package envserver

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// What the routes answer with; the tags describe the members in the OpenAPI document.

type healthResponse struct {
	Status healthStatus `json:"status"`
}

type healthStatus string

// Enum is how the document's library asks for the values; like the reference, the server only ever says the first.
func (healthStatus) Enum() []any { return []any{"healthy", "unhealthy", "degraded"} }

// environmentMetadata has six keys, always; those that are not known are null.
type environmentMetadata struct {
	Name        string  `json:"name" description:"name of the environment"`
	Description string  `json:"description" description:"what it does"`
	Readme      *string `json:"readme_content" description:"its README"`
	Version     *string `json:"version" description:"its version"`
	Author      *string `json:"author" description:"its author"`
	Docs        *string `json:"documentation_url" description:"where it is documented"`
}

// schemaResponse holds JSON schemas.
type schemaResponse struct {
	Action      map[string]any `json:"action" nullable:"false" description:"schema of actions"`
	Observation map[string]any `json:"observation" nullable:"false" description:"schema of observations"`
	State       map[string]any `json:"state" nullable:"false" description:"schema of the state"`
}

// problem is the body of every refusal but those of a body that does not read.
type problem struct {
	Detail  string     `json:"detail" description:"what is wrong, for people"`
	Kind    fault.Kind `json:"kind,omitempty" description:"what sort of failure it is"`
	ErrorID string     `json:"error_id,omitempty" description:"under which it is found in the server's log"`
	*occupancy
}

// occupancy says how full a server is that has no session to give.
type occupancy struct {
	Active int `json:"active_sessions,omitempty"`
	Max    int `json:"max_sessions,omitempty"`
}

// validationProblem is the body of a refusal because of what a request's body says.
type validationProblem struct {
	Detail issue.List `json:"detail" nullable:"false"`
}

// invalid is either of them.
type invalid struct{}

// verdict is beside the observation, on every transport.
type verdict struct {
	Reward *float64 `json:"reward" description:"the reward, where there is one"`
	Done   bool     `json:"done" description:"whether the episode has ended"`
}

type resetResponse struct {
	Observation struct{} `json:"observation" nullable:"false" description:"nothing: the task comes with the step"`
	verdict

	_ struct{} `title:"ResetResponse"`
}

type stepResponse struct {
	Observation observation `json:"observation" description:"what was observed"`
	verdict

	_ struct{} `title:"StepResponse"`
}

// observation is what a step observed: a toolsObservation or a callObservation.
type observation interface{ observed() }

func (toolsObservation) observed() {}
func (callObservation) observed()  {}

type toolsObservation struct {
	Tools []stepTool `json:"tools" nullable:"false"`
}

type stepTool struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	InputSchema *jsonschema.Schema `json:"input_schema"`
}

type callObservation struct {
	ToolName string      `json:"tool_name" required:"true" description:"the tool that was called"`
	Result   *callResult `json:"result" description:"what the tool returned; null when it failed"`
	Error    *toolError  `json:"error" description:"why the tool failed; null when it did not"`
}

// observationModel is callObservation as the reference's model has it: on the wire the members that it adds are beside the
// observation, or never sent.
type observationModel struct {
	Done     bool           `json:"done" default:"false" description:"whether the episode has ended"`
	Reward   *float64       `json:"reward" description:"reward of the step"`
	Metadata map[string]any `json:"metadata" nullable:"false" description:"never sent"`
	callObservation

	_ struct{} `title:"CallToolObservation" additionalProperties:"false"`
}

type abortAnswer struct {
	RolloutID string `json:"rollout_id"`
	Aborted   bool   `json:"aborted" description:"false when it was done already"`
}
