package envserver

// What the routes read. The tags describe the members in the OpenAPI document and in /schema; the functions that fill these
// types check what the tags say.

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

// sessionRequest names a session beside what a request's body says.
type sessionRequest struct {
	Header string `header:"X-Session-Id" description:"the session that the request belongs to"`
	Query  string `query:"session_id" description:"the same"`
}

type resetRequest struct {
	sessionRequest
	resetBody
}

type stepRequest struct {
	sessionRequest
	stepBody
}

// webResetRequest takes any members; the reference bounds none of them here.
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

type rolloutRequest struct {
	ID string `path:"id" description:"id of the rollout"`
}

type traceRequest struct {
	rolloutRequest
	Format string `query:"format" enum:"jsonl,npz" default:"jsonl" description:"jsonl has all of each call; npz has numbers, ids and logprobs as arrays for numpy"`
}

type eventsRequest struct {
	rolloutRequest
	After int `header:"Last-Event-ID" minimum:"0" description:"the last event that was seen"`
}

type abortRequest struct {
	rolloutRequest
	Reason string `json:"reason" description:"shown to people"`
}

// listRequest selects rollouts; what is left out selects all.
type listRequest struct {
	Status  string `query:"status" enum:"running,done"`
	TaskID  string `query:"task_id"`
	GroupID string `query:"group_id"`
	Outcome string `query:"outcome" enum:"completed,agent_failed,agent_timeout,budget_exhausted,aborted,setup_failed,verifier_failed,infra_failed"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"50" description:"rollouts of a page"`
	Cursor  string `query:"cursor" description:"next of the page before"`
}
