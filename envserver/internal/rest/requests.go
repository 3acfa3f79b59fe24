package rest

type rolloutRequest struct {
	ID string `path:"id" description:"id of the rollout"`
}

type resultRequest struct {
	rolloutRequest
	Part string `query:"part" enum:"all,head" default:"all" description:"head: without proxy_turns, workdir_files and files, which may be large"`
}

type traceRequest struct {
	rolloutRequest
	Format string `query:"format" enum:"jsonl,npz,atif" default:"jsonl" description:"jsonl: all of each call; npz: numbers, token ids and log probabilities as numpy arrays; atif: the conversation in the Agent Trajectory Interchange Format"`
}

type eventsRequest struct {
	rolloutRequest
	After int64 `header:"Last-Event-ID" minimum:"0" description:"id of the last event received; the stream continues after it"`
}

type abortRequest struct {
	rolloutRequest
	Reason string `json:"reason" description:"reason, for display"`
}

// selectRequest selects rollouts; a missing parameter selects all.
type selectRequest struct {
	Status       string  `query:"status" enum:"running,done"`
	Query        string  `query:"q" maxLength:"500" description:"words that the transcript of a rollout that has ended must have; \"a phrase\" is found as it is, and word* finds the words that begin so"`
	TaskID       string  `query:"task_id"`
	GroupID      string  `query:"group_id"`
	Model        string  `query:"model"`
	Agent        string  `query:"agent" description:"name of an agent"`
	Endpoint     string  `query:"endpoint" description:"name of a model endpoint, or its host and port"`
	IDPrefix     string  `query:"id_prefix" description:"prefix of the ids"`
	ProducerID   string  `query:"producer_id" description:"id of the producer whose groups the rollouts are of"`
	IDs          string  `query:"ids" description:"ids with commas, at most 100: these rollouts alone; only rollouts that have ended"`
	MinReward    float64 `query:"min_reward" description:"least reward; a rollout without a reward is not listed"`
	MaxReward    float64 `query:"max_reward" description:"greatest reward; a rollout without a reward is not listed"`
	MinTurns     int     `query:"min_turns" minimum:"0" description:"least number of turns of the last attempt; only rollouts that have ended"`
	MaxTurns     int     `query:"max_turns" minimum:"0" description:"greatest number of turns of the last attempt; only rollouts that have ended"`
	MinDuration  float64 `query:"min_duration_s" minimum:"0" description:"least time from the start to the end, in seconds; only rollouts that have ended"`
	MaxDuration  float64 `query:"max_duration_s" minimum:"0" description:"greatest time from the start to the end, in seconds; only rollouts that have ended"`
	Since        string  `query:"since" description:"earliest start, such as 2026-01-31T12:00:00Z"`
	Until        string  `query:"until" description:"the start must be before this time"`
	EndedSince   string  `query:"ended_since" description:"earliest end; only rollouts that have ended"`
	ModelVersion string  `query:"model_version" description:"version of the weights that the first reply named; only rollouts that have ended"`
	Outcome      string  `query:"outcome" enum:"completed,agent_failed,agent_timeout,budget_exhausted,aborted,setup_failed,verifier_failed,infra_failed"`
}

type listRequest struct {
	selectRequest
	Sort   string `query:"sort" description:"field of the rollouts by which the list is sorted, such as reward, or -reward for the greatest first; those without it are last: rollout_id, task_id, group_id, agent, model, endpoint, outcome, reward, turns, completion_tokens, duration_s, started_at. Only rollouts that have ended"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"50" description:"number of rollouts in a page"`
	Cursor string `query:"cursor" description:"position to continue from: next of the previous page"`
	Detail string `query:"detail" enum:"true,false" description:"true: include turns, wait state and current attempt of running rollouts, and the calls of running episodes; a page then has at most 100"`
}
