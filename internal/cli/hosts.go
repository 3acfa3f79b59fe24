package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// Hosts writes hosts as a table, one line each.
func Hosts(w io.Writer, all []fleet.Host, now time.Time) {
	t := NewColumns(w, "HOST", "STATE", "SLOTS", "WARM", "LOAD", "VERSION", "SEEN", "PROBLEM")

	for _, h := range all {
		load := fmt.Sprintf("%.2f/%d", h.Load, h.CPUs)
		seen := max(now.Sub(h.SeenAt), 0).Round(time.Second).String() + " ago"
		t.Row(plain(h.Name), orDash(string(h.State)), slots(h), h.Total().Warm, load, orDash(plain(h.Version)), seen,
			orDash(plain(h.Error)))
	}

	t.Flush()
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
