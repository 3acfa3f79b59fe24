// Package validation validates messages and returns errors in the form of the reference server's validation
// errors: clients show their texts and check their types.
package validation

import (
	"fmt"
	"strings"
)

// Issue is one validation error. Loc is the path to the value: strings for keys, ints for positions.
type Issue struct {
	Type  string         `json:"type"`
	Loc   []any          `json:"loc"`
	Msg   string         `json:"msg"`
	Input any            `json:"input"`
	Ctx   map[string]any `json:"ctx,omitempty"`
}

// List has the first maxIssues issues of one message; an empty list means that the message is valid.
type List []Issue

// Bounds of a refusal: every value of a message may be invalid.
const (
	maxIssues = 20

	// characters of a client's name
	maxName = 100

	// characters of a repeated text
	maxText = 1000

	// approximate bytes of a repeated value; a larger one is left out
	maxInput = 1000
)

// String returns the paths and messages of all issues on one line.
func (l List) String() string {
	lines := make([]string, len(l))
	for i, it := range l {
		lines[i] = it.path() + ": " + it.Msg
	}

	return strings.Join(lines, "; ")
}

func (it Issue) path() string {
	parts := make([]string, len(it.Loc))
	for i, p := range it.Loc {
		parts[i] = fmt.Sprint(p)
	}

	return strings.Join(parts, ".")
}
