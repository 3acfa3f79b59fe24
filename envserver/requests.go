package envserver

// Requests of the routes. The tags describe the members in the OpenAPI document and in /schema; the
// functions that decode these types check the constraints of the tags.

type resetBody struct {
	Seed      int64  `json:"seed" nullable:"true" minimum:"0" description:"taken and not used"`
	EpisodeID string `json:"episode_id" nullable:"true" maxLength:"255" description:"your name for the episode"`
	SessionID string `json:"session_id" nullable:"true" maxLength:"255" description:"the session that is reset, made if need be; none: an environment for this request alone"`
	Attach    bool   `json:"attach" default:"false" description:"go on with the episode of this id rather than begin it anew"`

	_ struct{} `title:"ResetRequest" additionalProperties:"true"`
}

type stepBody struct {
	Action    map[string]any `json:"action" required:"true" nullable:"false" description:"the action; see /schema"`
	TimeoutS  float64        `json:"timeout_s" nullable:"true" exclusiveMinimum:"0" description:"bound of the answer, in seconds"`
	RequestID string         `json:"request_id" nullable:"true" maxLength:"255" description:"your name for the request"`
	SessionID string         `json:"session_id" nullable:"true" maxLength:"255" description:"the session that the step belongs to; none: an environment for this request alone"`

	_ struct{} `title:"StepRequest" additionalProperties:"true"`
}

// sessionRequest names a session beside the other members of a body.
type sessionRequest struct {
	Header string `header:"X-Session-Id" description:"the session that the request belongs to"`
	Query  string `query:"session_id" description:"the same"`
}

// endRequest ends a session of the Model Context Protocol.
type endRequest struct {
	Header string `header:"Mcp-Session-Id" required:"true" description:"the session, as the answer to initialize named it"`
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
	EpisodeID string `json:"episode_id" nullable:"true" description:"your name for the episode"`
	Attach    bool   `json:"attach" default:"false" description:"go on with the episode of this id rather than begin it anew"`

	_ struct{} `additionalProperties:"true"`
}

type webStepRequest struct {
	sessionRequest
	Action map[string]any `json:"action" nullable:"false" description:"the action; see /schema"`

	_ struct{} `additionalProperties:"true"`
}
