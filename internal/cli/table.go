package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxFiles bounds the file names in a table.
const maxFiles = 8

// Table writes a result as a small table for people.
func Table(w io.Writer, r rollout.Result) {
	// indents the later lines of a value
	const column = "            "

	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-9s %s\n", name, block(fmt.Sprintf(format, args...), column))
	}
	row("rollout", "%s", r.ID)
	row("outcome", "%s", r.Outcome)
	row("reward", "%s", reward(r))
	row("turns", "%s", turns(r.Usage))

	for n, step := range r.Steps {
		row("step", "%d %s: %s", n+1, plain(step.Name), ofStep(step))
	}

	if v := verifier(r); v != "" {
		row("verifier", "%s", v)
	}

	if f := files(r); f != "" {
		row("files", "%s", f)
	}

	if n := len(r.Attempts); n > 1 {
		row("attempts", "%d%s", n, earlier(r.Attempts[:n-1]))
	}

	row("wall", "%.1f s", r.WallS)

	for _, c := range r.ResourceCauses {
		row("bound", "attempt %d, %s: %s", c.Attempt, c.Phase, c)
	}

	if r.Error != nil && *r.Error != "" {
		row("error", "%s", *r.Error)
	}
}

// ofStep formats how a step ended: its reward, or why there is none, and its named rewards.
func ofStep(s rollout.StepResult) string {
	parts := []string{string(s.Outcome), "not graded"}
	if s.Reward != nil {
		parts[1] = fmt.Sprintf("reward %.4g", *s.Reward)
	}

	for _, name := range slices.Sorted(maps.Keys(s.Rewards)) {
		parts = append(parts, fmt.Sprintf("%s %.4g", plain(name), s.Rewards[name]))
	}

	return joined(": ", strings.Join(parts, ", "), plain(s.Grading.Why))
}

// turns formats the number of turns with their tokens. The agents oracle and nop have none.
func turns(u rollout.Usage) string {
	if u.Turns == 0 {
		return "0"
	}

	return fmt.Sprintf("%d (%d prompt + %d completion tokens)", u.Turns, u.PromptTokens, u.CompletionTokens)
}

// reward formats the reward, or the reason for which there is none.
func reward(r rollout.Result) string {
	switch {
	case r.Reward != nil:
		return fmt.Sprintf("%.4g", *r.Reward)
	case r.Outcome.MayCarryReward():
		return "none (no verifier ran)"
	default:
		return fmt.Sprintf("none (%s rollouts are not graded)", r.Outcome)
	}
}

func verifier(r rollout.Result) string {
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
		return fmt.Sprintf("test script exited with %d", *r.TestExitCode)
	default:
		return ""
	}
}

// files lists the first files by path.
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

// earlier lists attempts, each on a line of its own, with why it ended.
func earlier(attempts []rollout.Attempt) string {
	var b strings.Builder

	for _, a := range attempts {
		fmt.Fprintf(&b, "\n%d: %s", a.Number, joined(": ", string(a.Outcome), plain(short(a.Error, maxDetail))))
	}

	return b.String()
}
