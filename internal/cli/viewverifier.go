package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// verifier writes how the reward came about: the commands of the verifier, of each step if the task has steps.
func (v *view) verifier(r rollout.Result) {
	fmt.Fprintln(v.w, "\n── verifier")
	v.row("grading", joined(": ", strings.ReplaceAll(string(r.Grading.Status), "_", " "), r.Grading.Why))

	for _, path := range r.Grading.Unseen {
		v.row("unseen", path)
	}

	for _, note := range r.Grading.Notes {
		v.row("note", note)
	}

	// the output of the last step is the result's own
	for n, s := range r.Steps {
		v.stepHeading(n)

		if n < len(r.Steps)-1 {
			v.commands("verify", s.VerifyResults)
			v.script(s.TestExitCode, s.VerifierStdout, s.VerifierStderr)
		}
	}

	v.commands("verify", r.VerifyResults)
	v.script(r.TestExitCode, r.VerifierStdout, r.VerifierStderr)
	v.commands("setup", r.SetupResults)
}

// commands writes commands of the task. One that passed has no output here.
func (v *view) commands(stage string, results []rollout.CommandResult) {
	for n, c := range results {
		fmt.Fprintf(v.w, "  %s command %d of %d: exit %d, %.1f s\n", stage, n+1, len(results), c.ExitCode, c.DurationS)
		v.row("", "$ "+c.Cmd)

		if c.ExitCode != 0 {
			v.row("stdout", cmp.Or(c.Stdout, "(nothing)"))
			v.row("stderr", cmp.Or(c.Stderr, "(nothing)"))
		}
	}
}

// script writes the output of a test script.
func (v *view) script(exit *int, stdout, stderr string) {
	if exit == nil {
		return
	}

	fmt.Fprintf(v.w, "  test script: exit %d\n", *exit)
	v.row("stdout", cmp.Or(stdout, "(nothing)"))
	v.row("stderr", cmp.Or(stderr, "(nothing)"))
}
