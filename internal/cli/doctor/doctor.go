// Package doctor looks at a machine and says what of rolloutd will work on it, what will not, and how to mend it. It changes
// nothing.
package doctor

import (
	"context"
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// Check is one look at one thing.
type Check func(ctx context.Context) []driver.Finding

// Run makes all checks, in order.
func Run(ctx context.Context, checks ...Check) []driver.Finding {
	var all []driver.Finding
	for _, c := range checks {
		all = append(all, c(ctx)...)
	}
	return all
}

// Print writes the findings for people and says whether rolloutd can run here: with no failure among them.
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
		if f.Mend != "" && f.Level != driver.OK {
			fmt.Fprintf(w, "%-5s %-*s mend: %s\n", "", width, "", f.Mend)
		}
	}
	fmt.Fprintf(w, "\n%s\n", verdict(fails, warns))
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

func verdict(fails, warns int) string {
	switch {
	case fails > 0:
		return fmt.Sprintf("rolloutd does not run rollouts here until what FAILs above is mended (%d).", fails)
	case warns > 0:
		return fmt.Sprintf("rolloutd runs here, with the limits told above (%d).", warns)
	default:
		return "rolloutd runs here."
	}
}
