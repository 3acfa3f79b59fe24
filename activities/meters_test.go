package activities_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A rollout that ends is counted once, with its phases and the attempts that it lost. Names that this host does not
// know add no series.
func TestEndedRolloutsAreCounted(t *testing.T) {
	t.Parallel()

	h := newHost(t)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	placed, lost := start.Add(2*time.Second), start.Add(5*time.Second)

	in := collectInput(func(in *activities.CollectInput) {
		in.Endpoint, in.TaskSet = "vllm", "math"
		in.Head.Attempts = append([]rollout.Attempt{{
			Number: 1, Outcome: rollout.InfraFailed, ErrorKind: string(fault.UpstreamFailed),
		}}, in.Head.Attempts...)
		in.Head.Phases = []rollout.PhaseTiming{
			{Phase: rollout.PhaseQueued, Attempt: 1, Start: start, End: &placed},
			{Phase: rollout.PhaseAgent, Attempt: 1, Start: placed, End: &lost},
			{Phase: rollout.PhaseCollecting, Attempt: 1, Start: lost},
		}
	})

	_, err := h.ComposeResult(t.Context(), in)
	require.NoError(t, err)

	in.Agent, in.Backend = "unknown", "unknown"
	_, err = h.ComposeResult(t.Context(), in)
	require.NoError(t, err)

	require.NoError(t, testutil.GatherAndCompare(h.registry, strings.NewReader(`
# HELP rolloutd_attempts_lost_total Attempts of ended rollouts that infrastructure lost, by the phase and the kind of the error.
# TYPE rolloutd_attempts_lost_total counter
rolloutd_attempts_lost_total{backend="local",endpoint="vllm",kind="UpstreamFailed",phase="running_agent"} 1
rolloutd_attempts_lost_total{backend="other",endpoint="vllm",kind="UpstreamFailed",phase="running_agent"} 1
# HELP rolloutd_rollouts_total Rollouts that have ended.
# TYPE rolloutd_rollouts_total counter
rolloutd_rollouts_total{agent="opencode",backend="local",endpoint="vllm",outcome="completed",task_set="math"} 1
rolloutd_rollouts_total{agent="other",backend="other",endpoint="vllm",outcome="completed",task_set="math"} 1
`), "rolloutd_rollouts_total", "rolloutd_attempts_lost_total"))

	require.Equal(t, map[string]float64{"queued": 2, "running_agent": 3}, h.phaseSeconds(t, "local"))
}

// phaseSeconds reads the sums of the durations of phases.
func (h *host) phaseSeconds(t *testing.T, backend string) map[string]float64 {
	t.Helper()

	families, err := h.registry.Gather()
	require.NoError(t, err)

	sums := map[string]float64{}

	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "rolloutd_phase_seconds" && m.GetLabel()[0].GetValue() == backend {
				sums[m.GetLabel()[1].GetValue()] = m.GetHistogram().GetSampleSum()
			}
		}
	}

	return sums
}
