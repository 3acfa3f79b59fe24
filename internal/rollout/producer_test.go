package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func producerSpec() rollout.ProducerSpec {
	set := rollout.SetRef{Key: rollout.SetKey(strings.Repeat("a", 64)), Len: 3}
	return rollout.ProducerSpec{
		ID: "p", Tasks: set, GroupSize: 4, Sink: "s", Bounds: rollout.ProducerBounds{Concurrency: 8},
		Eval: &rollout.EvalSpec{Tasks: set, Every: 5, GroupSize: 1},
	}
}

func TestProducerSpec(t *testing.T) {
	t.Parallel()
	require.NoError(t, producerSpec().Validate())
	for want, change := range map[string]func(*rollout.ProducerSpec){
		"producer_id":            func(p *rollout.ProducerSpec) { p.ID = strings.Repeat("x", 33) },
		"group_size":             func(p *rollout.ProducerSpec) { p.GroupSize = 129 },
		"max_replacements":       func(p *rollout.ProducerSpec) { p.MaxReplacements = -1 },
		"deadline_s":             func(p *rollout.ProducerSpec) { p.GroupDeadline = -time.Second },
		"sink":                   func(p *rollout.ProducerSpec) { p.Sink = "" },
		"epochs":                 func(p *rollout.ProducerSpec) { p.Epochs = -1 },
		"batch_size":             func(p *rollout.ProducerSpec) { p.BatchSize = -1 },
		"filter.max_version_lag": func(p *rollout.ProducerSpec) { lag := -1; p.Filter.MaxVersionLag = &lag },
		"filter.mark_stale":      func(p *rollout.ProducerSpec) { p.Filter.MarkStale = true },
		"filter.max_tokens":      func(p *rollout.ProducerSpec) { p.Filter.MaxTokens = -1 },
		"filter.min_rollouts":    func(p *rollout.ProducerSpec) { p.Filter.MinRollouts = 5 },
		"concurrency":            func(p *rollout.ProducerSpec) { p.Bounds.Concurrency = 0 },
		"max_batches_offpolicy":  func(p *rollout.ProducerSpec) { p.Bounds.MaxBatchesOffpolicy = -1 },
		"total_steps":            func(p *rollout.ProducerSpec) { p.Bounds.TotalSteps = -1 },
		"tasks":                  func(p *rollout.ProducerSpec) { p.Tasks.Key = "rollouts/x" },
		"eval.every":             func(p *rollout.ProducerSpec) { p.Eval.Every = 0 },
		"eval.group_size":        func(p *rollout.ProducerSpec) { p.Eval.GroupSize = 0 },
	} {
		p := producerSpec()
		change(&p)
		err := p.Validate()
		require.ErrorContains(t, err, want)
		require.True(t, fault.Is(err, fault.Invalid))
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	one := 1.0
	g := rollout.GroupState{ID: "g", Size: 3, Members: []rollout.Member{{Outcome: rollout.Completed, Reward: &one}, {}, {}}}
	require.Equal(t, rollout.GroupReport{GroupID: "g", Left: 2}, g.Report())
	g.Outcome = rollout.GroupPartial
	require.Equal(t, rollout.GroupReport{GroupID: "g", Outcome: rollout.GroupPartial, Rewards: []float64{1}}, g.Report())
	lost := rollout.GroupState{ID: "g", Size: 1, Outcome: rollout.GroupFailed, Members: []rollout.Member{{Outcome: rollout.InfraFailed}}}
	require.True(t, lost.Report().Lost)
	lost.Members[0].Outcome = rollout.SetupFailed
	require.False(t, lost.Report().Lost)
}
