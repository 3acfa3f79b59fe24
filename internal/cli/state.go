package cli

import (
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/cli/client"
)

// State writes where a rollout stands that runs.
func State(w io.Writer, s client.State) {
	fmt.Fprintf(w, "rollout %s is %s: %s, attempt %d, %d model calls so far\n", s.ID, s.Status, s.Phase, s.Attempt, s.Turns)
	if s.Waiting != "" {
		fmt.Fprintf(w, "it waits: %s\n", plain(s.Waiting))
	}
}
