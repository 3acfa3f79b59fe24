package cli

import (
	"fmt"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// maxFailed bounds the failed commands that are shown; the verifier's log has all.
	maxFailed = 3
	// maxLine bounds a line of a command or of its output, in characters.
	maxLine = 100
)

// failed formats the first failed commands, each with its exit code, its first line and the last line of
// its output. Every line begins with a line break.
func failed(results []rollout.CommandResult) string {
	var b strings.Builder

	shown := 0
	for _, r := range results {
		if r.ExitCode == 0 || shown == maxFailed {
			continue
		}

		shown++
		first, _, _ := strings.Cut(strings.TrimSpace(r.Cmd), "\n")
		fmt.Fprintf(&b, "\nexit %d: %s", r.ExitCode, short(first, maxLine))

		if output := lastLine(r.Stderr, r.Stdout); output != "" {
			fmt.Fprintf(&b, "\n    %s", short(output, maxLine))
		}
	}

	return b.String()
}

// lastLine returns the last line of the first text that is not blank.
func lastLine(texts ...string) string {
	for _, text := range texts {
		if text = strings.TrimSpace(text); text != "" {
			return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
		}
	}

	return ""
}
