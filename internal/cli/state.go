package cli

import (
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/cli/client"
)

// State writes the state of a running rollout.
func State(w io.Writer, s client.State) {
	fmt.Fprintf(w, "rollout %s is %s: %s, attempt %d, %d model calls so far\n", s.ID, s.Status, s.Phase, s.Attempt, s.Turns)
	if s.Waiting != "" {
		fmt.Fprintf(w, "waiting: %s\n", plain(s.Waiting))
	}
}
