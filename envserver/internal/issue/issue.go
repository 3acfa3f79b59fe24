// Package issue says what is wrong with a message, in the shape that pydantic gives its validation errors: clients of the
// reference server show these to people and look at their types.
package issue

import (
	"fmt"
	"strings"
)

// docs is where the reference's error items point; the version is that of the reference's lock file.
const docs = "https://errors.pydantic.dev/2.12/v/"

// Issue is one thing wrong. Loc is the path to it: strings for keys, ints for positions.
type Issue struct {
	Type  string         `json:"type"`
	Loc   []any          `json:"loc"`
	Msg   string         `json:"msg"`
	Input any            `json:"input"`
	Ctx   map[string]any `json:"ctx,omitempty"`
	URL   string         `json:"url,omitempty"`
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

// WithURLs returns a copy whose items link to their explanation. The reference links them in WebSocket replies and for
// actions, not for bodies of HTTP requests.
func (l List) WithURLs() List {
	out := make(List, len(l))
	for i, it := range l {
		it.URL = docs + it.Type
		out[i] = it
	}
	return out
}

// Text writes the list as pydantic prints an error about the named model.
func (l List) Text(model string) string {
	var b strings.Builder
	plural := ""
	if len(l) != 1 {
		plural = "s"
	}
	fmt.Fprintf(&b, "%d validation error%s for %s", len(l), plural, model)
	for _, it := range l {
		fmt.Fprintf(&b, "\n%s\n  %s [type=%s, input_type=%s]", it.path(), it.Msg, it.Type, typeName(it.Input))
	}
	return b.String()
}

func (it Issue) path() string {
	parts := make([]string, len(it.Loc))
	for i, p := range it.Loc {
		parts[i] = fmt.Sprint(p)
	}
	return strings.Join(parts, ".")
}
