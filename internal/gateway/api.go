package gateway

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Route is one agent sandbox's way to its model.
type Route struct {
	ID        string         `json:"id"` // the agent's sandbox id, "<rollout>.<attempt>"
	RolloutID string         `json:"rollout_id"`
	Attempt   int            `json:"attempt"`
	SandboxID string         `json:"sandbox_id"` // whose model channel is served; "": none, all calls come from the host (see Model)
	Capture   bool           `json:"capture"`    // false: calls are forwarded and not recorded
	Model     rollout.Model  `json:"model"`
	Limits    rollout.Limits `json:"limits"` // Call, Turns, PromptTokens, CompletionTokens and Cost count here
	// Origin is the name of the agent's process in the sandbox. A call from another process is foreign: recorded and counted by every
	// budget, never trained on, and no sign of the endpoint's health. A trailing "*" matches the rest of a name. "": the calls of all
	// processes count as the agent's.
	Origin string `json:"origin,omitempty"`
	// OriginChildren has calls of the process's descendants count as its own.
	OriginChildren bool `json:"origin_children,omitempty"`
	// TraceParent is the W3C trace context that the route's model calls belong to; Client.Open sets it.
	TraceParent string `json:"traceparent,omitempty"`
}

// RouteStatus is how a route stands.
type RouteStatus struct {
	ID          string        `json:"id"`
	Version     int64         `json:"version"`   // differs from one change of the status to the next
	Attached    bool          `json:"attached"`  // the sandbox's model channel is being served
	Turns       int           `json:"turns"`     // whole replies to the agent and its subagents
	InFlight    int           `json:"in_flight"` // calls being worked on
	Calls       int           `json:"calls"`     // recorded calls of every kind, whole or not; see Client.Turns
	Usage       rollout.Usage `json:"usage"`     // over whole replies of every kind, cost over all calls; Turns as above
	FirstCallAt time.Time     `json:"first_call_at,omitzero"`
	LastCallAt  time.Time     `json:"last_call_at,omitzero"`
	Ended       string        `json:"ended,omitempty"`        // the reason given to End; "" while open
	BudgetSpent string        `json:"budget_spent,omitempty"` // a Budget name, once a call was refused for it
	Failure     *Failure      `json:"failure,omitempty"`      // why the agent's own last call that failed for good did
	// Trouble is why the endpoint gives the agent no answer: it is paused and the agent's own call waits for it; or what came of the latest try of its own
	// call under way that is retried, of the latest attempt to have a prompt tokenised, or before the first call of a connection. "": nothing is wrong.
	Trouble string `json:"trouble,omitempty"`
	// Held is for how long the agent's own calls were held back up to this status: while the endpoint was paused or had asked for no calls, from the
	// begin of a try that failed to that of the next, while the endpoint failed to tokenise a prompt, and while the gateway was away. Calls at
	// the same time count once. Holding says that it goes on.
	Held    time.Duration `json:"held,omitempty"`
	Holding bool          `json:"holding,omitempty"`
	// Owed is how long the agent's own calls waited for an endpoint that gave nothing of use: tries that failed, the pauses between them,
	// admission, and of a call that was given up the time since its reply last grew. Calls at the same time count once.
	Owed time.Duration `json:"owed,omitempty"`
	// OwedSince is since when the endpoint owes an answer to the agent's own call under way that has waited longest: since the call
	// began or its reply last grew, or since it fails to tokenise a prompt. A reply that grew within StallTime is not owed. The zero time: nothing is owed.
	OwedSince time.Time `json:"owed_since,omitzero"`
}

// StallTime is how long a reply may stand still before the endpoint counts as owing the rest of it.
const StallTime = 2 * time.Second

// Budget names, as RouteStatus.BudgetSpent has them.
const (
	BudgetTurns            = "turns"
	BudgetPromptTokens     = "prompt_tokens"
	BudgetCompletionTokens = "completion_tokens"
	BudgetCost             = "cost"
	BudgetTrace            = "trace_bytes" // what the calls take on disk
)

// Failure is a call's final failure that is not the agent's own doing.
type Failure struct {
	// Kind is UpstreamFailed (no usable answer within the call's budget), UpstreamRefused (never will be), Unavailable (the gateway had no
	// memory for the reply within the call's budget), or Internal (the record could not be written, and nothing unrecorded is handed on).
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
	Status  int        `json:"status,omitempty"` // of the endpoint's answer; 0: there was none, or it was no refusal
}

// Admin API paths; {id} is a Route's ID, {name} an upstream's: see rollout.Model.Upstream.
const (
	RoutesPath   = "/routes"
	RoutePath    = RoutesPath + "/{id}"
	EndPath      = RoutePath + "/end"
	TracePath    = RoutePath + "/trace"
	SessionsPath = RoutePath + "/sessions"
	TurnsPath    = RoutePath + "/turns"
	ProbePath    = RoutePath + "/probe"
	InspectPath  = RoutePath + "/inspect"
	ModelPath    = RoutePath + "/v1" // the model APIs, for an agent outside the sandbox
	ReadyPath    = "/ready/{name}"
)

// upstreamPath is of the trainer API; it has tracePath, too.
const UpstreamPath = "/upstreams/{name}"

// Purposes name the shared secrets of the two APIs; see seal.Key.Token.
const (
	AdminPurpose   = "gateway admin"
	trainerPurpose = "gateway trainer"
)

// RouteList is the answer to GET /routes.
type RouteList struct {
	IDs []string `json:"ids"`
}

// EndRequest is the body of POST /routes/{id}/end.
type EndRequest struct {
	Reason string `json:"reason"`
}

// TurnList is the answer to GET /routes/{id}/turns?after=N: the recorded calls behind the first N, in the order they ended, at most MaxTurns of them.
type TurnList struct {
	Turns []Turn `json:"turns"`
}

// MaxTurns bounds a TurnList.
const MaxTurns = 256

// Turn is a recorded call without what was said in it.
type Turn struct {
	Turn             int              `json:"turn"`
	Kind             rollout.TurnKind `json:"kind"`
	Lineage          string           `json:"lineage,omitempty"`
	PromptTokens     int64            `json:"prompt_tokens"`
	CompletionTokens int64            `json:"completion_tokens"`
	FinishReason     string           `json:"finish_reason,omitempty"`
	Broken           string           `json:"broken,omitempty"`
	Began            time.Time        `json:"began"`
	Ended            time.Time        `json:"ended"`
}

// SessionsRequest is the body of POST /routes/{id}/sessions.
type SessionsRequest struct {
	Sessions []string `json:"sessions"`
}

// FailureBody is the body of every failure of both APIs.
type FailureBody struct {
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
}

// EndedHeader comes with the empty completion that a caller on the host gets once the route makes no further calls. Its value says why,
// with the escapes of a query.
const EndedHeader = "X-Rolloutd-Ended"

// UpstreamStatus is how an upstream stands.
type UpstreamStatus struct {
	Version   string    `json:"version,omitempty"` // of the weights, as a trainer named them
	Paused    bool      `json:"paused"`
	Until     time.Time `json:"until,omitzero"`      // when the pause ends by itself
	HeldUntil time.Time `json:"held_until,omitzero"` // it asked to be left alone until then
	InFlight  int       `json:"in_flight"`           // requests under way
	Queued    int       `json:"queued"`              // requests that wait
	Busy      string    `json:"busy,omitempty"`      // why new rollouts wait; absent: they need not
}

// PauseRequest is the body of POST /upstreams/{name}/pause and drain.
type PauseRequest struct {
	ForS  float64 `json:"for_s"`           // seconds until the pause ends by itself
	WaitS float64 `json:"wait_s"`          // drain: seconds to wait for the calls under way
	Abort bool    `json:"abort,omitempty"` // drain: end those that take longer, to be made again after the pause
}

// ResumeRequest is the body of POST /upstreams/{name}/resume, which may be empty.
type ResumeRequest struct {
	Version string `json:"version,omitempty"` // of the weights from now on; "": as before
}
