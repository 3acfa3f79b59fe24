package trainerapi_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The example of a trainer trains on all available groups.
func TestExample(t *testing.T) {
	t.Parallel()

	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}

	c := client{t, serve(t)}
	c.ok("POST", "/scored_data", groupOf(2, 1, ""))
	c.ok("POST", "/scored_data", groupOf(2, 2, ""))
	out, err := exec.CommandContext(t.Context(), python, "../../../examples/atropos_consumer.py", c.url, "2", "2").
		CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(
		t,
		"step 0: group: advantages [-0.5, 0.5], 2 tokens to train on\nstep 1: group: advantages [-0.5, 0.5], 2 tokens to train on\n",
		string(out),
	)
	require.InDelta(t, 0, c.ok("GET", "/status", "")["unacknowledged_batches"], 0)
}
