// Package fault is the closed set of error kinds. Code whose callers branch on an error wraps the error in
// a Kind; every edge (HTTP, tool results, JSON-RPC, Temporal) maps kinds by the one table in this package.
package fault

import (
	"errors"
	"fmt"
)

// Kind says what sort of failure an error is. Kinds are part of the wire contract (Temporal error types,
// outcome causes): add to them, never rename.
type Kind string

const (
	// Invalid: the caller's input is wrong and will stay wrong.
	Invalid Kind = "Invalid"
	// Unauthorized: the caller has no right to do this.
	Unauthorized Kind = "Unauthorized"
	// NotFound: the thing named does not, or no longer, exist.
	NotFound Kind = "NotFound"
	// Conflict: the thing exists already and differs from what was asked.
	Conflict Kind = "Conflict"
	// Exhausted: a quota or capacity is used up; waiting may help.
	Exhausted Kind = "Exhausted"
	// Unavailable: a service did not answer; trying again may help.
	Unavailable Kind = "Unavailable"
	// Timeout: a time limit of rolloutd ran out.
	Timeout Kind = "Timeout"
	// Aborted: a client or operator requested the end.
	Aborted Kind = "Aborted"
	// SandboxLost: the sandbox is lost; this attempt cannot continue, another one can start.
	SandboxLost Kind = "SandboxLost"
	// OutOfMemory and OutOfDisk: the sandbox's own bounds were hit.
	OutOfMemory Kind = "OutOfMemory"
	OutOfDisk   Kind = "OutOfDisk"
	// SetupFailed: a command of the task's own setup failed.
	SetupFailed Kind = "SetupFailed"
	// AgentFailed: the agent itself failed.
	AgentFailed Kind = "AgentFailed"
	// VerifierFailed: the verifier gave no usable reward.
	VerifierFailed Kind = "VerifierFailed"
	// UpstreamFailed: the model endpoint gave no usable answer within the call's budget.
	UpstreamFailed Kind = "UpstreamFailed"
	// UpstreamRefused: the model endpoint refuses calls permanently (bad key, no such model).
	UpstreamRefused Kind = "UpstreamRefused"
	// ToolServerFailed: a tool server outside the sandbox gave no usable answer in time. No other part failed.
	ToolServerFailed Kind = "ToolServerFailed"
	// Internal: a bug in rolloutd.
	Internal Kind = "Internal"
)

// Error is an error of a known kind. Field names the bad input, as the caller wrote it, where there is one.
type Error struct {
	Kind  Kind
	Field string
	Msg   string
	Err   error
}

func (e *Error) Error() string {
	switch {
	case e.Msg == "" && e.Err != nil:
		return e.Err.Error()
	case e.Err != nil:
		return e.Msg + ": " + e.Err.Error()
	default:
		return e.Msg
	}
}

func (e *Error) Unwrap() error { return e.Err }

// New makes an error of kind k.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...)}
}

// Wrap wraps err in an error of kind k whose message says what failed. A nil err stays nil.
func Wrap(k Kind, err error, format string, args ...any) error {
	if err == nil {
		return nil
	}

	return &Error{Kind: k, Msg: fmt.Sprintf(format, args...), Err: err}
}

// Field makes an Invalid error about one named input; the message says what would be right.
func Field(name, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Field: name, Msg: name + ": " + fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of the outermost Error in err's chain, or Internal when there is none. KindOf(nil) is "".
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}

	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}

	return Internal
}

// Is reports whether err's kind is k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// Ignore returns nil if err's kind is k, else err.
func Ignore(err error, k Kind) error {
	if Is(err, k) {
		return nil
	}

	return err
}

// Known reports whether k is one of the kinds above. A kind from the wire may be any text.
func (k Kind) Known() bool {
	switch k {
	case Invalid,
		Unauthorized,
		NotFound,
		Conflict,
		Exhausted,
		Unavailable,
		Timeout,
		Aborted,
		SandboxLost,
		OutOfMemory,
		OutOfDisk,
		SetupFailed,
		AgentFailed,
		VerifierFailed,
		UpstreamFailed,
		UpstreamRefused,
		ToolServerFailed,
		Internal:
		return true
	default:
		return false
	}
}
