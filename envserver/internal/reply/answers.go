package reply

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// What the routes answer with; the tags describe the members in the OpenAPI document.

// HealthResponse answers GET /health.
type HealthResponse struct {
	Status healthStatus `json:"status"`
}

type healthStatus string

// Enum is how the document's library asks for the values; like the reference, the server only ever says the first.
func (healthStatus) Enum() []any { return []any{"healthy", "unhealthy", "degraded"} }

// EnvironmentMetadata has six keys, always; those that are not known are null.
type EnvironmentMetadata struct {
	Name        string  `json:"name" description:"name of the environment"`
	Description string  `json:"description" description:"what it does"`
	Readme      *string `json:"readme_content" description:"its README"`
	Version     *string `json:"version" description:"its version"`
	Author      *string `json:"author" description:"its author"`
	Docs        *string `json:"documentation_url" description:"where it is documented"`
}

// SchemaResponse holds JSON schemas.
type SchemaResponse struct {
	Action      map[string]any `json:"action" nullable:"false" description:"schema of actions"`
	Observation map[string]any `json:"observation" nullable:"false" description:"schema of observations"`
	State       map[string]any `json:"state" nullable:"false" description:"schema of the state"`
}

// Problem is the body of every refusal but those of a body that does not read.
type Problem struct {
	Detail  string     `json:"detail" description:"what is wrong, for people"`
	Kind    fault.Kind `json:"kind,omitempty" description:"what sort of failure it is"`
	ErrorID string     `json:"error_id,omitempty" description:"under which it is found in the server's log"`
	*Occupancy
}

// Occupancy says how full a server is that has no session to give.
type Occupancy struct {
	Active int `json:"active_sessions,omitempty"`
	Max    int `json:"max_sessions,omitempty"`
}

// ValidationProblem is the body of a refusal because of what a request's body says.
type ValidationProblem struct {
	Detail issue.List `json:"detail" nullable:"false"`
}

// Invalid is either of them.
type Invalid struct{}

// ending is beside the observation, on every transport.
type ending struct {
	Reward *float64 `json:"reward" description:"the reward, where there is one"`
	Done   bool     `json:"done" description:"whether the episode has ended"`
}

// ResetResponse answers a reset.
type ResetResponse struct {
	Observation resetObservation `json:"observation" nullable:"false"`
	ending
	overHTTP

	_ struct{} `title:"ResetResponse"`
}

// resetObservation has nothing to say where the task comes with the step.
type resetObservation struct {
	Metadata noMetadata `json:"metadata" nullable:"false" description:"empty"`
	Begun    *Begun     `json:"-"` // of an interactive episode
}

// MarshalJSON puts what Begun says beside the metadata.
func (o resetObservation) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Metadata noMetadata `json:"metadata"`
		*Begun
	}{o.Metadata, o.Begun})
}

// noMetadata is an object without members. Clients read it in the observation, and beside the observation in the reference's HTTP answers.
type noMetadata struct{}

// overHTTP is beside the observation in answers over HTTP, as the reference's model of them has it. Over a WebSocket it must be left out: the
// client takes a null there for metadata, which is none.
type overHTTP struct {
	Metadata any `json:"metadata,omitempty" description:"null, over HTTP"`
}

// NullMetadata is what overHTTP holds over HTTP.
type NullMetadata struct{}

// MarshalJSON writes null, which omitempty would leave out.
func (NullMetadata) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// StepResponse answers a step.
type StepResponse struct {
	Observation Observation `json:"observation" description:"what was observed"`
	ending
	overHTTP

	_ struct{} `title:"StepResponse"`
}

// Observation is what a step observed: a toolsObservation or a callObservation.
type Observation interface{ observed() }

func (ToolsObservation) observed() {}
func (CallObservation) observed()  {}
func (PlayObservation) observed()  {}

// ToolsObservation is the observation of the action list_tools.
type ToolsObservation struct {
	Metadata noMetadata `json:"metadata" nullable:"false" description:"empty"`
	Tools    []StepTool `json:"tools" nullable:"false"`
}

// StepTool is a tool in a ToolsObservation.
type StepTool struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	InputSchema *jsonschema.Schema `json:"input_schema"`
}

// CallObservation is the observation of a tool call.
type CallObservation struct {
	Metadata noMetadata  `json:"metadata" nullable:"false" description:"empty"`
	ToolName string      `json:"tool_name" required:"true" description:"the tool that was called"`
	Result   *callResult `json:"result" description:"what the tool returned; null when it failed"`
	Error    *toolError  `json:"error" description:"why the tool failed; null when it did not"`
}

// ObservationModel is callObservation as the reference's model has it: on the wire the members that it adds are beside the
// observation, or never sent.
type ObservationModel struct {
	Done   bool     `json:"done" default:"false" description:"whether the episode has ended"`
	Reward *float64 `json:"reward" description:"reward of the step"`
	CallObservation

	_ struct{} `title:"CallToolObservation" additionalProperties:"false"`
}

// Upload answers about a file that a client has sent.
type Upload struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"` // bytes
}

// ScoreAnswer answers a score.
type ScoreAnswer struct {
	RolloutID string  `json:"rollout_id"`
	Score     float64 `json:"score"`
}

// AbortAnswer answers an abort.
type AbortAnswer struct {
	RolloutID string `json:"rollout_id"`
	Aborted   bool   `json:"aborted" description:"false when it was done already"`
}
