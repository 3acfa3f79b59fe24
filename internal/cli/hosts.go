package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// Hosts writes hosts as a table, one line each.
func Hosts(w io.Writer, all []fleet.Host, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tSTATE\tSLOTS\tWARM\tLOAD\tVERSION\tSEEN\tPROBLEM")

	for _, h := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%.2f/%d\t%s\t%s ago\t%s\n",
			plain(h.Name), orDash(string(h.State)), slots(h), h.Total().Warm, h.Load, h.CPUs, orDash(plain(h.Version)),
			max(now.Sub(h.SeenAt), 0).Round(time.Second), orDash(plain(h.Error)))
	}
	// fails only if the output is closed
	_ = t.Flush()
}

// slots are the used and all slots of a host, by backend if it has several.
func slots(h fleet.Host) string {
	if total := h.Total(); len(h.Backends) < 2 {
		return fmt.Sprintf("%d/%d", total.Used, total.Slots)
	}

	var all []string

	for _, name := range slices.Sorted(maps.Keys(h.Backends)) {
		room := h.Backends[name]
		all = append(all, fmt.Sprintf("%s %d/%d", plain(name), room.Used, room.Slots))
	}

	return strings.Join(all, ", ")
}
