package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/rolloutd/rolloutd/internal/fleet"
)

// Hosts writes hosts as a table, one line each.
func Hosts(w io.Writer, all []fleet.Host, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tSTATE\tSLOTS\tWARM\tLOAD\tVERSION\tSEEN\tPROBLEM")
	for _, h := range all {
		room := h.Total()
		fmt.Fprintf(t, "%s\t%s\t%d/%d\t%d\t%.2f/%d\t%s\t%s ago\t%s\n", plain(h.Name), orDash(string(h.State)), room.Used, room.Slots, room.Warm, h.Load, h.CPUs,
			orDash(plain(h.Version)), max(now.Sub(h.SeenAt), 0).Round(time.Second), orDash(plain(h.Error)))
	}
	_ = t.Flush() // fails only if the output is closed
}
