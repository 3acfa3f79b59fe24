package envserver

// Requests of the routes. The tags describe the members in the OpenAPI document and in /schema; the
// functions that decode these types check the constraints of the tags.

type resetBody struct {
	Seed      int64  `json:"seed" nullable:"true" minimum:"0" description:"accepted for compatibility and ignored"`
	EpisodeID string `json:"episode_id" nullable:"true" maxLength:"255" description:"episode id chosen by the client"`
	SessionID string `json:"session_id" nullable:"true" maxLength:"255" description:"id of the session to reset, created if it does not exist. Without it, the environment lives for this request only"`
	Attach    bool   `json:"attach" default:"false" description:"true: continue the episode with this id instead of starting a new one"`

	_ struct{} `title:"ResetRequest" additionalProperties:"true"`
}

type stepBody struct {
	Action    map[string]any `json:"action" required:"true" nullable:"false" description:"the action to run; /schema has its JSON schema"`
	TimeoutS  float64        `json:"timeout_s" nullable:"true" exclusiveMinimum:"0" description:"time limit of the answer, in seconds"`
	RequestID string         `json:"request_id" nullable:"true" maxLength:"255" description:"request id chosen by the client (idempotency key)"`
	SessionID string         `json:"session_id" nullable:"true" maxLength:"255" description:"id of the session of the step. Without it, the environment lives for this request only"`

	_ struct{} `title:"StepRequest" additionalProperties:"true"`
}

// sessionRequest names a session beside the other members of a body.
type sessionRequest struct {
	Header string `header:"X-Session-Id" description:"id of the session"`
	Query  string `query:"session_id" description:"the same"`
}

// endRequest ends a session of the Model Context Protocol.
type endRequest struct {
	Header string `header:"Mcp-Session-Id" required:"true" description:"id of the session, from the answer to initialize"`
}

type resetRequest struct {
	sessionRequest
	resetBody
}

type stepRequest struct {
	sessionRequest
	stepBody
}

// webResetRequest accepts any members; the reference bounds none of them here.
type webResetRequest struct {
	sessionRequest
	EpisodeID string `json:"episode_id" nullable:"true" description:"episode id chosen by the client"`
	Attach    bool   `json:"attach" default:"false" description:"true: continue the episode with this id instead of starting a new one"`

	_ struct{} `additionalProperties:"true"`
}

type webStepRequest struct {
	sessionRequest
	Action map[string]any `json:"action" nullable:"false" description:"the action to run; /schema has its JSON schema"`

	_ struct{} `additionalProperties:"true"`
}
