package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxFiles is how many of a result's files are named.
const maxFiles = 8

// Table writes a result as a small table.
func Table(w io.Writer, r rollout.Result) {
	const column = "            " // of the values: as wide as what stands before them
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-9s %s\n", name, block(fmt.Sprintf(format, args...), column))
	}
	row("rollout", "%s", r.ID)
	row("outcome", "%s", r.Outcome)
	row("reward", "%s", reward(r))
	row("turns", "%d (%d prompt + %d completion tokens)", r.Usage.Turns, r.Usage.PromptTokens, r.Usage.CompletionTokens)
	if v := verdict(r); v != "" {
		row("verifier", "%s", v)
	}
	if f := files(r); f != "" {
		row("files", "%s", f)
	}
	if n := len(r.Attempts); n > 1 {
		row("attempts", "%d, the earlier ones ended as %s", n, earlier(r.Attempts[:n-1]))
	}
	row("wall", "%.1f s", r.WallS)
	if r.Error != nil && *r.Error != "" {
		row("error", "%s", *r.Error)
	}
}

// reward says why there is none where there is none: null is not 0.
func reward(r rollout.Result) string {
	switch {
	case r.Reward != nil:
		return fmt.Sprintf("%.4g", *r.Reward)
	case r.Outcome.MayCarryReward():
		return "null: the task has no verifier"
	default:
		return fmt.Sprintf("null: not graded, since %s is not the agent's doing", r.Outcome)
	}
}

func verdict(r rollout.Result) string {
	switch {
	case len(r.VerifyResults) > 0:
		passed := 0
		for _, v := range r.VerifyResults {
			if v.ExitCode == 0 {
				passed++
			}
		}
		return fmt.Sprintf("%d of %s passed", passed, count(len(r.VerifyResults), "command")) + failed(r.VerifyResults)
	case r.TestExitCode != nil:
		return fmt.Sprintf("the test script ended with exit status %d", *r.TestExitCode)
	default:
		return ""
	}
}

// files names the first files, by path.
func files(r rollout.Result) string {
	all := r.Files
	if len(all) == 0 {
		all = r.WorkdirFiles
	}
	names := slices.Sorted(maps.Keys(all))
	for i, name := range names {
		names[i] = plain(strings.TrimPrefix(name, rollout.Workdir+"/"))
	}
	more := len(names) + len(r.FilesExtra) - maxFiles
	if len(names) > maxFiles {
		names = names[:maxFiles]
	} else {
		more = len(r.FilesExtra)
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func earlier(attempts []rollout.Attempt) string {
	var out []string
	for _, a := range attempts {
		out = append(out, string(a.Outcome))
	}
	return strings.Join(out, ", ")
}
