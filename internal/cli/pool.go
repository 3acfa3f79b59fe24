package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/rolloutd/rolloutd/internal/pool"
)

// Pool writes a pool: its target, its backlog and its hosts, one line each.
func Pool(w io.Writer, spec pool.Spec, s pool.Status, now time.Time) {
	if s.At.IsZero() {
		fmt.Fprintf(w, "pool %s: not checked yet\n", spec.Name)
	} else {
		fmt.Fprintf(w,
			"pool %s (%s): %d of %d to %d hosts wanted, %d rollouts wait for a slot, the first for %s; seen %s ago\n",
			spec.Name, spec.JobID, s.Target, *spec.Min, spec.Max, s.Backlog.Count, s.Backlog.Age.Round(time.Second),
			max(0, now.Sub(s.At)).Round(time.Second))
	}

	for _, line := range []struct{ label, text string }{
		{"mode", mode(spec)}, {"last change", s.Did}, {"problem", s.Error},
	} {
		if line.text != "" {
			fmt.Fprintf(w, "%s: %s\n", line.label, plain(line.text))
		}
	}

	if len(s.Hosts) == 0 {
		return
	}

	t := NewColumns(w, "GROUP", "HOST", "STATE", "SLOTS", "NODE", "NOMAD", "PROBLEM")

	for _, h := range s.Hosts {
		state := string(h.State)
		if h.Outdated {
			state += " (old settings)"
		}

		t.Row(plain(h.Group), orDash(plain(h.Host)), orDash(state), fmt.Sprintf("%d/%d", h.Used, h.Slots),
			orDash(plain(h.Node)), orDash(plain(h.Nomad)), orDash(plain(h.Why)))
	}

	t.Flush()
}

func mode(s pool.Spec) string {
	switch {
	case s.Down == pool.DownNow:
		return "goes down at once"
	case s.Down != "":
		return "goes down; hosts leave when they are empty"
	case s.Fixed != nil:
		return fmt.Sprintf("fixed at %d hosts (rolloutd pool scale %s auto)", *s.Fixed, s.Name)
	default:
		return ""
	}
}
