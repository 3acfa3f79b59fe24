package cli_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestList(t *testing.T) {
	t.Parallel()

	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	over, zero := began.Add(95*time.Second), 0.0
	attempt, turns := 2, 17

	var b strings.Builder
	cli.List(&b, []rollout.Listed{
		{
			ID:        "r2",
			TaskID:    "fizz\x1b[2Jbuzz",
			Phase:     rollout.PhaseAgent,
			StartedAt: began,
			Attempt:   &attempt,
			Turns:     &turns,
			Waiting:   "model endpoint: unreachable\x1b",
		},
		{
			ID:         "r1",
			Phase:      rollout.PhaseDone,
			Outcome:    rollout.Completed,
			Reward:     &zero,
			StartedAt:  began,
			FinishedAt: &over,
			Match:      "…a\x1b\nKeyError…",
		},
		{ID: "r0", TaskID: strings.Repeat("ä", 41), Phase: rollout.PhaseQueued, StartedAt: began},
		{ID: "r3", Phase: rollout.PhaseAgent, StartedAt: began, Waiting: "model endpoint: unreachable\x1b"},
	}, began.Add(30*time.Second))
	lines := strings.Split(b.String(), "\n")
	require.Equal(
		t,
		[]string{"ROLLOUT", "TASK", "STATE", "ATTEMPT", "TURNS", "REWARD", "TOOK", "STARTED"},
		strings.Fields(lines[0]),
	)
	require.Contains(t, b.String(), `r1: …a\x1b KeyError…`)
	require.NotContains(t, lines[1], "\x1b", "a task's name must not control the terminal")
	require.Equal(
		t,
		[]string{string(rollout.PhaseAgent), "2", "17", "-", "30s", "2026-03-01", "12:00:00"},
		strings.Fields(lines[1])[2:],
		"a missing reward is not shown as 0",
	)
	require.Equal(
		t,
		[]string{"r1", "-", "completed", "-", "-", "0", "1m35s", "2026-03-01", "12:00:00"},
		strings.Fields(lines[2]),
	)
	require.Equal(t, strings.Repeat("ä", 39)+"…", strings.Fields(lines[3])[1], "a long name is cut")
	require.Equal(t, "waiting: r2 and 1 more: model endpoint: unreachable", lines[5][:len(lines[5])-len(`\x1b`)])
}
