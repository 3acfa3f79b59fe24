package producer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func spec() producer.Spec {
	set := rollout.SetRef{Key: rollout.SetKey(strings.Repeat("a", 64)), Len: 3}

	return producer.Spec{
		ID: "p", Tasks: set, GroupSize: 4, Sink: "s", Bounds: producer.Bounds{Concurrency: 8},
		Eval: &producer.EvalSpec{Tasks: set, Every: 5, GroupSize: 1},
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	require.NoError(t, spec().Validate())

	for want, change := range map[string]func(*producer.Spec){
		"producer_id":            func(p *producer.Spec) { p.ID = strings.Repeat("x", 33) },
		"group_size":             func(p *producer.Spec) { p.GroupSize = 129 },
		"max_replacements":       func(p *producer.Spec) { p.MaxReplacements = -1 },
		"group_deadline_s":       func(p *producer.Spec) { p.GroupDeadline = -time.Second },
		"sink":                   func(p *producer.Spec) { p.Sink = "" },
		"epochs":                 func(p *producer.Spec) { p.Epochs = -1 },
		"batch_size":             func(p *producer.Spec) { p.BatchSize = -1 },
		"filter.max_version_lag": func(p *producer.Spec) { lag := -1; p.Filter.MaxVersionLag = &lag },
		"filter.mark_stale":      func(p *producer.Spec) { p.Filter.MarkStale = true },
		"filter.max_tokens":      func(p *producer.Spec) { p.Filter.MaxTokens = -1 },
		"filter.min_rollouts":    func(p *producer.Spec) { p.Filter.MinRollouts = 5 },
		"concurrency":            func(p *producer.Spec) { p.Bounds.Concurrency = 0 },
		"max_batches_offpolicy":  func(p *producer.Spec) { p.Bounds.MaxBatchesOffpolicy = -1 },
		"total_steps":            func(p *producer.Spec) { p.Bounds.TotalSteps = -1 },
		"tasks":                  func(p *producer.Spec) { p.Tasks.Key = "rollouts/x" },
		"eval.every":             func(p *producer.Spec) { p.Eval.Every = 0 },
		"eval.group_size":        func(p *producer.Spec) { p.Eval.GroupSize = 0 },
	} {
		p := spec()
		change(&p)
		err := p.Validate()
		require.ErrorContains(t, err, want)
		require.True(t, fault.Is(err, fault.Invalid))
	}
}
