// Package issue says what is wrong with a message, in the shape of the reference server's validation errors: clients show these to
// people and look at their types.
package issue

import (
	"fmt"
	"strings"
)

// Issue is one thing wrong. Loc is the path to it: strings for keys, ints for positions.
type Issue struct {
	Type  string         `json:"type"`
	Loc   []any          `json:"loc"`
	Msg   string         `json:"msg"`
	Input any            `json:"input"`
	Ctx   map[string]any `json:"ctx,omitempty"`
}

// List is what is wrong with one message, the first maxIssues of it; an empty list means it is right.
type List []Issue

// Bounds of what a refusal says: a message may be wrong in every one of its values, and its sender gets no more than a page about it.
const (
	maxIssues = 20
	maxName   = 100  // characters of a name that the client made up
	maxText   = 1000 // characters of a text that is shown
	maxInput  = 1000 // bytes of a value that is shown, about; a larger one is left out
)

// String says in one line what is wrong and where.
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
