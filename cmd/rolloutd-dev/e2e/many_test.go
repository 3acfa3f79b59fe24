package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Many more rollouts than the machine has cores are submitted at once. All complete in their first attempt,
// and no agent is started twice: a host limits the number of agents that start at the same time by the
// number of its cores.
//
// The environment variable ROLLOUTD_MANY is the number of rollouts. Without it the test is skipped. Two
// hundred rollouts take ten minutes or more on two cores, and the test's -timeout must be longer.
func TestManyRolloutsAtOnce(t *testing.T) {
	many := os.Getenv("ROLLOUTD_MANY")
	if many == "" {
		t.Skip("ROLLOUTD_MANY is not set")
	}

	n, err := strconv.Atoi(many)
	require.NoError(t, err, "ROLLOUTD_MANY")
	srv := startDev(t, devOptions{})
	began := time.Now()

	ids := make([]string, n)
	for i := range ids {
		ids[i] = start(t, srv.url, args{"instruction": "say hello", "endpoint": "scripted", "verify": []string{"true"}})
	}

	submitted := time.Since(began)

	for _, id := range ids {
		r := finalize(t, srv.url, id)
		require.Equal(t, rollout.Completed, r.Outcome, deref(r.Error))
		require.Len(t, r.Attempts, 1)
		require.Equal(t, 1, srv.agentStarts(t, r), "%s", srv.relaunches(t))
	}

	t.Logf(
		"%d rollouts: submitted in %.1f s, done in %.0f s, none started its agent twice; rolloutd-dev took at most %s",
		n,
		submitted.Seconds(),
		time.Since(began).Seconds(),
		srv.peakMemory(t),
	)
}

// relaunches returns the log lines that say why an agent was launched again.
func (d *dev) relaunches(t *testing.T) (lines []string) {
	t.Helper()

	log, err := os.ReadFile(d.log)
	require.NoError(t, err)

	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "relaunching the agent") {
			lines = append(lines, line)
		}
	}

	return lines
}
