package cli

import (
	"fmt"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// maxFailed is how many of the commands that failed are told; the verifier's log has all.
	maxFailed = 3
	// maxLine is how much of a command or of what it said is shown, in characters.
	maxLine = 100
)

// failed tells the first commands that failed, each by its first line and the last that it said: whoever sees a reward below 1
// asks what it was for. Every line begins with a line break.
func failed(results []rollout.CommandResult) string {
	var b strings.Builder
	told := 0
	for _, r := range results {
		if r.ExitCode == 0 || told == maxFailed {
			continue
		}
		told++
		first, _, _ := strings.Cut(strings.TrimSpace(r.Cmd), "\n")
		fmt.Fprintf(&b, "\nexit %d: %s", r.ExitCode, short(first, maxLine))
		if said := lastLine(r.Stderr, r.Stdout); said != "" {
			fmt.Fprintf(&b, "\n    %s", short(said, maxLine))
		}
	}
	return b.String()
}

// lastLine is the last line of the first text that has any.
func lastLine(texts ...string) string {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
		}
	}
	return ""
}
