package episode

import (
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// TokenPurpose derives the token of the tool service from the deployment's key.
const TokenPurpose = "tool service"

// MaxCallID bounds the id of a call, in bytes.
const MaxCallID = 200

// Call is one call of a tool. A call repeated under its ID is answered from the step log and runs nothing.
// The same ID with another tool or other arguments is a fault.Conflict.
type Call struct {
	// 1 to MaxCallID bytes
	ID   string `json:"id"`
	Tool string `json:"tool"`

	// an object; empty stands for {}
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Client identifies the caller. Once a client has joined an episode, calls of another are a
	// fault.Conflict; "" is not checked.
	Client string `json:"client,omitempty"`
}

// Result is what a tool returned; see tool.Result.
type Result struct {
	Content string          `json:"content"`
	Error   bool            `json:"error,omitempty"`
	Message string          `json:"message,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Text is the result as one text for a policy: the output, and below it why the call failed.
func (r Result) Text() string {
	switch {
	case r.Message == "":
		return r.Content
	case r.Content == "":
		return r.Message
	default:
		return r.Content + "\n" + r.Message
	}
}

// Answer answers a call.
type Answer struct {
	Result

	// calls so far, this one included
	Steps int `json:"steps"`

	// why the episode takes no more calls; "": it does
	Ended string `json:"ended,omitempty"`
}

// Status is the status of an episode on its host.
type Status struct {
	// calls that have ended
	Steps int `json:"steps"`

	// calls that have not
	Running int `json:"running,omitempty"`

	// in the order of their first call
	ToolsUsed []string `json:"tools_used"`

	// LastAt is when the latest of Steps began; absent: no call has ended.
	LastAt *time.Time `json:"last_at,omitempty"`
	Ended  string     `json:"ended,omitempty"`

	// set by the client
	SandboxID string `json:"-"`
}

// Kinds of a Step.
const (
	KindCall = "call"

	// Client has joined
	KindJoin = "join"

	// the client has ended the episode
	KindSubmit = "submit"
)

// Step is a line of the step log.
type Step struct {
	Kind string `json:"kind"`

	// number of the call, from 1, in the order in which calls ended
	Step      int             `json:"step,omitempty"`
	ID        string          `json:"id,omitempty"`
	Client    string          `json:"client,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    *Result         `json:"result,omitempty"`

	// start of the call
	At time.Time `json:"at"`

	// duration of the call
	Seconds float64 `json:"seconds,omitempty"`
}

// Entry is a file or folder of a workspace.
type Entry struct {
	// relative to the workdir, without links
	Path  string `json:"path"`
	IsDir bool   `json:"is_dir"`
	Size  int64  `json:"size"`

	// unix seconds
	MTime float64 `json:"mtime"`
}

// Failure is the body of a refusal of the tool service.
type Failure struct {
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
}
