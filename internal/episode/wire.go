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

// Call is one call of a tool. A call repeated under its ID is answered from the step log and runs nothing. The same ID with another
// tool or other arguments is a fault.Conflict.
type Call struct {
	ID        string          `json:"id"` // 1 to MaxCallID bytes
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // an object; empty stands for {}
	// Client identifies the caller. Once a client has joined an episode, calls of another are a fault.Conflict; "" is not checked.
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
	Steps int    `json:"steps"`           // calls so far, this one included
	Ended string `json:"ended,omitempty"` // why the episode takes no more calls; "": it does
}

// Status is the status of an episode on its host.
type Status struct {
	Steps     int      `json:"steps"`             // calls that have ended
	Running   int      `json:"running,omitempty"` // calls that have not
	ToolsUsed []string `json:"tools_used"`        // in the order of their first call
	Ended     string   `json:"ended,omitempty"`
	SandboxID string   `json:"-"` // set by the client
}

// Kinds of a Step.
const (
	KindCall   = "call"
	KindJoin   = "join"   // Client has joined
	KindSubmit = "submit" // the client has ended the episode
)

// Step is a line of the step log.
type Step struct {
	Kind      string          `json:"kind"`
	Step      int             `json:"step,omitempty"` // of a call, from 1, in the order in which calls ended
	ID        string          `json:"id,omitempty"`
	Client    string          `json:"client,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    *Result         `json:"result,omitempty"`
	At        time.Time       `json:"at"`                // start of the call
	Seconds   float64         `json:"seconds,omitempty"` // duration of the call
}

// Entry is a file or folder of a workspace.
type Entry struct {
	Path  string  `json:"path"` // relative to the folder that was listed
	IsDir bool    `json:"is_dir"`
	Size  int64   `json:"size"`
	MTime float64 `json:"mtime"` // unix seconds
}

// Failure is the body of a refusal of the tool service.
type Failure struct {
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
}
