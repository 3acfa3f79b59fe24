package rollout_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// stepSpec is a rollout of two steps.
func stepSpec() rollout.Spec {
	graded := func(instruction string) rollout.Task {
		return rollout.Task{Instruction: instruction, Verifier: rollout.Verifier{Commands: []string{"true"}}}
	}

	return rollout.Spec{
		ID: "r", Agent: rollout.AgentOpencode, Mode: rollout.TransparentProxy,
		Model: rollout.Model{BaseURL: "http://m/v1", Name: "m"},
		Task: rollout.Task{ID: "t", Instruction: "all", Steps: []rollout.Step{
			{Name: "one", Task: graded("first"), AgentTimeout: time.Minute},
			{Name: "two", Task: graded("second"), VerifierTimeout: time.Hour},
		}},
	}
}

func TestStepsAreValidated(t *testing.T) {
	t.Parallel()
	require.NoError(t, stepSpec().Validate())

	for want, change := range map[string]func(*rollout.Spec){
		"steps[1].name: must be unique":             func(s *rollout.Spec) { s.Task.Steps[1].Name = "one" },
		"steps[0].name: must be 1 to 128 bytes":     func(s *rollout.Spec) { s.Task.Steps[0].Name = "" },
		"steps[1].instruction: must be the prompt":  func(s *rollout.Spec) { s.Task.Steps[1].Task.Instruction = " " },
		"steps[0].verifier: must run in":            func(s *rollout.Spec) { s.Task.Steps[0].Task.Verifier.External = true },
		"steps[0].min_reward: a must be a finite":   func(s *rollout.Spec) { s.Task.Steps[0].MinReward = map[string]float64{"a": math.NaN()} },
		"steps[0]: a step has no steps":             func(s *rollout.Spec) { s.Task.Steps[0].Task.Steps = s.Task.Steps[1:] },
		"steps[0].solution: must have at least one": func(s *rollout.Spec) { s.Agent = rollout.AgentOracle },
		`steps: are not supported for the agent`:    func(s *rollout.Spec) { s.Agent = rollout.AgentInteractive },
		"steps: each step has its own files":        func(s *rollout.Spec) { s.Task.Setup = []string{"true"} },
		"reward_strategy: must be":                  func(s *rollout.Spec) { s.Task.RewardStrategy = "best" },
		"reward_strategy: needs steps":              func(s *rollout.Spec) { s.Task.Steps, s.Task.RewardStrategy = nil, rollout.RewardMean },
		"limits.rollout_s: must be at least one":    func(s *rollout.Spec) { s.Limits.Rollout = time.Hour },
		`steps[0]: "one": time limits must be 0 to`: func(s *rollout.Spec) { s.Task.Steps[0].AgentTimeout = -1 },
		"steps: must be at most 50":                 func(s *rollout.Spec) { s.Task.Steps = make([]rollout.Step, 51) },
		"steps[0].min_reward: needs a verifier":     func(s *rollout.Spec) { withoutVerifier(s).MinReward = map[string]float64{"reward": 1} },
		"steps[1].setup[0]: must be a bash command": func(s *rollout.Spec) { s.Task.Steps[1].Task.Setup = []string{""} },
		"steps and verifier with its files must be at": func(s *rollout.Spec) {
			s.Task.Steps[1].Task.Verifier.Script = string(make([]byte, rollout.MaxTaskBytes))
		},
	} {
		s := stepSpec()
		change(&s)
		require.ErrorContains(t, s.Validate(), want)
	}
}

func withoutVerifier(s *rollout.Spec) *rollout.Step {
	s.Task.Steps[0].Task.Verifier = rollout.Verifier{}
	return &s.Task.Steps[0]
}

// The limit of a rollout has room for all attempts of all steps.
func TestLimitsOfSteps(t *testing.T) {
	t.Parallel()

	s := stepSpec()
	l := s.FilledLimits()
	first, second := s.Task.PartLimits(0, l), s.Task.PartLimits(1, l)
	require.Equal(t, time.Minute, first.Agent)
	require.Less(t, first.Call, first.Agent)
	require.LessOrEqual(t, first.Quiet, first.Agent)
	require.Equal(t, l.Agent, second.Agent)
	require.Equal(t, time.Hour, second.Verifier)
	require.Greater(t, l.Rollout, 3*(first.Agent+second.Agent+second.Verifier))

	s.Limits.Rollout = 24 * time.Hour
	require.Equal(t, 24*time.Hour, s.FilledLimits().Rollout)

	s.Task.Steps = make([]rollout.Step, rollout.MaxSteps)
	for n := range s.Task.Steps {
		s.Task.Steps[n].AgentTimeout = rollout.MaxBound
	}

	s.Limits = rollout.Limits{Attempts: 100}
	require.Positive(t, s.FilledLimits().Rollout, "a sum of long limits does not overflow")
}

func TestRewardOfSteps(t *testing.T) {
	t.Parallel()

	ran := []rollout.StepResult{{Reward: new(1.0)}, {}, {Reward: new(0.5)}}

	for _, c := range []struct {
		strategy rollout.RewardStrategy
		ran      []rollout.StepResult
		want     *float64
	}{
		{"", ran, new(0.75)},
		{rollout.RewardMean, ran, new(0.75)},
		{rollout.RewardMean, ran[1:2], nil},
		{rollout.RewardMean, nil, nil},
		{rollout.RewardFinal, ran, new(0.5)},
		{rollout.RewardFinal, ran[:2], nil},
		{rollout.RewardFinal, nil, nil},
	} {
		require.Equal(t, c.want, c.strategy.RewardOf(c.ran))
	}
}
