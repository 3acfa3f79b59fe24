package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/rolloutd/rolloutd/internal/cli/client"
)

// State writes the state of a running rollout.
func State(w io.Writer, s client.State) {
	fmt.Fprintf(w, "rollout %s is %s: %s, attempt %d, %d model calls so far\n",
		s.ID, s.Status, s.Phase, s.Attempt, s.Turns)

	if s.AsOf != nil {
		age := time.Since(time.UnixMicro(int64(*s.AsOf * 1e6))).Round(time.Second)
		fmt.Fprintf(w, "this is the state of %s ago, the last that is known\n", age)
	}

	if s.Waiting != "" {
		fmt.Fprintf(w, "waiting: %s\n", plain(s.Waiting))
	}
}
