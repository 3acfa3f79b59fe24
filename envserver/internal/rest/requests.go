package rest

type rolloutRequest struct {
	ID string `path:"id" description:"id of the rollout"`
}

type traceRequest struct {
	rolloutRequest
	Format string `query:"format" enum:"jsonl,npz,atif" default:"jsonl" description:"jsonl has all of each call; npz has numbers, ids and logprobs as arrays for numpy; atif is the agent's conversation in the Agent Trajectory Interchange Format"`
}

type eventsRequest struct {
	rolloutRequest
	After int64 `header:"Last-Event-ID" minimum:"0" description:"the last event that was seen"`
}

type abortRequest struct {
	rolloutRequest
	Reason string `json:"reason" description:"shown to people"`
}

// listRequest selects rollouts; a missing parameter selects all.
type listRequest struct {
	Status  string `query:"status" enum:"running,done"`
	TaskID  string `query:"task_id"`
	GroupID string `query:"group_id"`
	Outcome string `query:"outcome" enum:"completed,agent_failed,agent_timeout,budget_exhausted,aborted,setup_failed,verifier_failed,infra_failed"`
	Limit   int    `query:"limit" minimum:"1" maximum:"1000" default:"50" description:"rollouts of a page"`
	Cursor  string `query:"cursor" description:"next of the page before"`
	Detail  string `query:"detail" enum:"true,false" description:"with turns, waiting and the present attempt of running rollouts; a page of 100 at most"`
}
