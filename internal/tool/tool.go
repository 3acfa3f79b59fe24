package tool

import (
	"context"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// Definition is a tool as the policy sees it.
type Definition struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Parameters is a JSON schema of type object. Its bytes are part of the prompt and do not change between calls.
	Parameters json.RawMessage `json:"parameters"`
}

// Call is one call of a tool. A call repeated under the same ID in the same sandbox returns the same result
// and runs nothing twice. The same ID with other arguments is a fault.Conflict.
type Call struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	// an object; empty: {}
	Arguments json.RawMessage `json:"arguments"`
}

// Result is the answer to a call. All text is valid UTF-8 and bounded.
type Result struct {
	// Content is the output of the tool. A failed command has output too.
	Content string `json:"content"`
	// Error: the call failed because of the policy: bad arguments, a missing file, a command that exits
	// with a code other than 0 or times out.
	Error bool `json:"error,omitempty"`
	// Message is the reason for the policy; empty unless Error.
	Message string `json:"message,omitempty"`
	// Data is a JSON object of facts such as exit_code; empty: none.
	Data json.RawMessage `json:"data,omitempty"`
}

// Set is an immutable selection of tools bound to a sandbox. It is safe for concurrent use; calls run in parallel.
type Set interface {
	// Definitions lists the tools in the order of their registration.
	Definitions() []Definition
	// Call runs one call. A mistake of the policy (an unknown tool, arguments that do not fit the schema)
	// is a Result with Error. An error is an infrastructure failure with its kind: fault.SandboxLost,
	// fault.Unavailable, fault.ToolServerFailed, fault.Conflict for an ID used with other arguments, and so
	// on. After such an error the call may be repeated under the same ID.
	Call(ctx context.Context, c Call) (Result, error)
}

// Env is the environment of the tools of a Set.
type Env struct {
	Sandbox *sandbox.Sandbox
	// Networked: the tools' processes reach hosts that the task allows.
	Networked bool
	// Record stores the answers of servers outside the sandbox; nil: none is stored.
	Record Record
	// CallScope is the scope in which ids of calls are unique; "": the sandbox.
	CallScope string
}

// Scope returns the attempt or episode in which ids of calls are unique.
func (e Env) Scope() string {
	if e.CallScope != "" || e.Sandbox == nil {
		return e.CallScope
	}

	return e.Sandbox.ID()
}

// Tool is one unbound tool. It is safe for concurrent use.
type Tool interface {
	Definition() Definition
	// Call runs a call whose arguments fit the schema of the Definition. Its errors are those of Set.Call.
	Call(ctx context.Context, env Env, c Call) (Result, error)
}

// Failed returns the result of a call that failed because of the policy's mistake.
func Failed(message string) Result { return Result{Error: true, Message: message} }
