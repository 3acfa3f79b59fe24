package cli

import (
	"io"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Deliveries prints a table of deliveries.
func Deliveries(w io.Writer, all []rollout.Delivery) {
	t := NewColumns(w, "SINK", "GROUP", "STATE", "TRIES", "QUEUED", "REASON")

	for _, d := range all {
		t.Row(d.Sink, d.GroupID, d.State, d.Tries, d.QueuedAt.Local().Format(time.DateTime), plain(d.Reason))
	}

	t.Flush()
}
