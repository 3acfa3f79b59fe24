package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/retention"
)

// StoreUsage writes what a store holds as a table.
func StoreUsage(w io.Writer, all []retention.Usage, now time.Time) {
	t := NewColumns(w, "KIND", "BLOBS", "SIZE", "OLDEST")

	blobs, bytes := 0, int64(0)

	for _, u := range all {
		t.Row(u.Kind, u.Blobs, size(u.Bytes), days(now.Sub(u.Oldest)))

		blobs, bytes = blobs+u.Blobs, bytes+u.Bytes
	}

	t.Row("total", blobs, size(bytes), "")
	t.Flush()
}

// StorePlan writes what a policy deletes and why it keeps the rest.
func StorePlan(w io.Writer, p retention.Plan) {
	fmt.Fprintf(w, "the store holds %s\n", size(p.Bytes))
	fmt.Fprintf(w, "delete %d rollouts of %s\n", len(p.Delete), size(p.Freed()))

	outcomes := map[string]int{}
	for _, r := range p.Delete {
		outcomes[string(r.Outcome)]++
	}

	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		fmt.Fprintf(w, "  %d %s\n", outcomes[name], name)
	}

	records := p.RecordsByKind()
	for _, kind := range slices.Sorted(maps.Keys(records)) {
		fmt.Fprintf(w, "delete %d unused of: %s\n", records[kind], kind)
	}

	for _, reason := range slices.Sorted(maps.Keys(p.Kept)) {
		fmt.Fprintf(w, "keep %d rollouts %s\n", p.Kept[reason], reason)
	}
}

// size formats a number of bytes.
func size(bytes int64) string {
	const kib = 1 << 10

	units := []string{"B", "KiB", "MiB", "GiB"}
	value, unit := float64(bytes), 0

	for value >= kib && unit < len(units)-1 {
		value, unit = value/kib, unit+1
	}

	if unit == 0 {
		return fmt.Sprintf("%d B", bytes)
	}

	return fmt.Sprintf("%.1f %s", value, units[unit])
}

// days formats an age.
func days(age time.Duration) string {
	const day = 24 * time.Hour
	if age < day {
		return age.Truncate(time.Minute).String()
	}

	return fmt.Sprintf("%d d", age/day)
}
