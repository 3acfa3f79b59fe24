package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Deliveries prints a table of deliveries.
func Deliveries(w io.Writer, all []rollout.Delivery) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SINK\tGROUP\tSTATE\tTRIES\tQUEUED\tREASON")

	for _, d := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n",
			d.Sink, d.GroupID, d.State, d.Tries, d.QueuedAt.Local().Format(time.DateTime), plain(d.Reason))
	}
	// fails only if the output is closed
	_ = t.Flush()
}
