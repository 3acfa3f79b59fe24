package reply

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/validation"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// The types below are the answers of the routes; the tags describe the members in the OpenAPI document.

// HealthResponse answers GET /health.
type HealthResponse struct {
	Status healthStatus `json:"status"`
}

type healthStatus string

// Enum returns the values for the OpenAPI document. Like the reference, the server only answers with the first.
func (healthStatus) Enum() []any { return []any{"healthy", "unhealthy", "degraded"} }

// EnvironmentMetadata always has six members; those that are not known are null.
type EnvironmentMetadata struct {
	Name        string  `json:"name" description:"name of the environment"`
	Description string  `json:"description" description:"description of the environment"`
	Readme      *string `json:"readme_content" description:"README of the environment"`
	Version     *string `json:"version" description:"version of the environment"`
	Author      *string `json:"author" description:"author of the environment"`
	Docs        *string `json:"documentation_url" description:"URL of the documentation"`
}

// SchemaResponse holds JSON schemas.
type SchemaResponse struct {
	Action      map[string]any `json:"action" nullable:"false" description:"JSON schema of actions"`
	Observation map[string]any `json:"observation" nullable:"false" description:"JSON schema of observations"`
	State       map[string]any `json:"state" nullable:"false" description:"JSON schema of the state"`
}

// Problem is the body of every error except that of an invalid request body.
type Problem struct {
	Detail  string     `json:"detail" description:"description of the error"`
	Kind    fault.Kind `json:"kind,omitempty" description:"kind of the failure"`
	ErrorID string     `json:"error_id,omitempty" description:"id of the failure in the server's log"`
	*Occupancy
}

// Occupancy has the numbers of sessions of a server without a free slot.
type Occupancy struct {
	Active int `json:"active_sessions,omitempty"`
	Max    int `json:"max_sessions,omitempty"`
}

// ValidationProblem is the error body for an invalid request body.
type ValidationProblem struct {
	Detail validation.List `json:"detail" nullable:"false"`
}

// Invalid stands for Problem or ValidationProblem in the OpenAPI document.
type Invalid struct{}

// ending has the members beside the observation on every transport.
type ending struct {
	Reward *float64 `json:"reward" description:"reward, if there is one"`
	Done   bool     `json:"done" description:"true if the episode has ended"`
}

// ResetResponse answers a reset.
type ResetResponse struct {
	Observation resetObservation `json:"observation" nullable:"false"`
	ending
	overHTTP

	_ struct{} `title:"ResetResponse"`
}

// resetObservation is empty where the task comes with the step.
type resetObservation struct {
	Metadata noMetadata `json:"metadata" nullable:"false" description:"empty"`

	// the start of an interactive episode
	Start *EpisodeStart `json:"-"`
}

// MarshalJSON writes the members of Start beside the metadata.
func (o resetObservation) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Metadata noMetadata `json:"metadata"`
		*EpisodeStart
	}{o.Metadata, o.Start})
}

// noMetadata is an object without members. Clients read it in the observation, and beside the observation
// in the reference's HTTP answers.
type noMetadata struct{}

// overHTTP is beside the observation in answers over HTTP, as in the reference's model. Over a WebSocket it
// must be left out: the client would take the null for metadata.
type overHTTP struct {
	Metadata any `json:"metadata,omitempty" description:"always null over HTTP"`
}

// NullMetadata is the value of overHTTP.Metadata in answers over HTTP.
type NullMetadata struct{}

// MarshalJSON writes null; omitempty would omit a nil value.
func (NullMetadata) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// StepResponse answers a step.
type StepResponse struct {
	Observation Observation `json:"observation" description:"observation"`
	ending
	overHTTP

	_ struct{} `title:"StepResponse"`
}

// Observation is the observation of a step: a ToolsObservation, a CallObservation or a PlayObservation.
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
	ToolName string      `json:"tool_name" required:"true" description:"name of the tool"`
	Result   *callResult `json:"result" description:"result of the tool; null if it failed"`
	Error    *toolError  `json:"error" description:"error of the tool; null if it succeeded"`
}

// ObservationModel is CallObservation in the reference's model. On the wire its additional members are
// beside the observation, or never sent.
type ObservationModel struct {
	Done   bool     `json:"done" default:"false" description:"true if the episode has ended"`
	Reward *float64 `json:"reward" description:"reward of the step"`
	CallObservation

	_ struct{} `title:"CallToolObservation" additionalProperties:"false"`
}

// Upload describes a file that a client has sent.
type Upload struct {
	SHA256 string `json:"sha256"`

	// bytes
	Size int64 `json:"size"`
}

// ScoreAnswer answers a score.
type ScoreAnswer struct {
	RolloutID string  `json:"rollout_id"`
	Score     float64 `json:"score"`
}

// AbortAnswer answers an abort.
type AbortAnswer struct {
	RolloutID string `json:"rollout_id"`
	Aborted   bool   `json:"aborted" description:"false if it had already ended"`
}
