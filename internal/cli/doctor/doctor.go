// Package doctor checks whether rolloutd can run on a machine and how to fix what prevents it. It changes nothing.
package doctor

import (
	"context"
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/driver"
)

// Check examines one part of the machine.
type Check func(ctx context.Context) []driver.Finding

// Run runs all checks in order.
func Run(ctx context.Context, checks ...Check) []driver.Finding {
	var all []driver.Finding
	for _, c := range checks {
		all = append(all, c(ctx)...)
	}

	return all
}

// Print writes the findings for people and reports whether rolloutd can run: whether none of them is a failure.
func Print(w io.Writer, all []driver.Finding) bool {
	fails, warns, width := 0, 0, 0
	for _, f := range all {
		width = max(width, len(f.Name))
	}

	for _, f := range all {
		switch f.Level {
		case driver.Fail:
			fails++
		case driver.Warn:
			warns++
		}

		fmt.Fprintf(w, "%-5s %-*s %s\n", word(f.Level), width, f.Name, f.Detail)

		if f.Fix != "" && f.Level != driver.OK {
			fmt.Fprintf(w, "%-5s %-*s fix: %s\n", "", width, "", f.Fix)
		}
	}

	fmt.Fprintf(w, "\n%s\n", summary(fails, warns))

	return fails == 0
}

func word(l driver.Level) string {
	switch l {
	case driver.OK:
		return "ok"
	case driver.Warn:
		return "warn"
	default:
		return "FAIL"
	}
}

func summary(fails, warns int) string {
	switch {
	case fails > 0:
		return fmt.Sprintf("rolloutd cannot run rollouts on this machine: %d FAIL above", fails)
	case warns > 0:
		return fmt.Sprintf("rolloutd can run on this machine, with limits: %d warn above", warns)
	default:
		return "rolloutd can run on this machine"
	}
}
