// Package result composes the result of a rollout from the workflow's data and the blobs of its last
// attempt in the store. It needs no host.
package result

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

const (
	// characters of agent and proxy log in a Result
	logTail = 2000

	// events of the agent in a Result
	eventsTail  = 20
	installTail = 2000
)

// Composer composes the result of one rollout.
type Composer struct {
	Store  *store.Store
	Logger *slog.Logger

	// the last attempt
	Target rollout.Target
	Head   Head
}

// Compose returns the result. A blob that does not exist is left out.
func (c *Composer) Compose(ctx context.Context) (rollout.Result, error) {
	res := c.Head.result(c.Target.RolloutID)
	for _, add := range []func(context.Context, *rollout.Result) error{
		c.addTrace, c.addEvents, c.addSetup, c.addServices, c.addGrading, c.addSteps, c.addCauses, c.addFiles, c.addLinks, c.addReport,
	} {
		if err := add(ctx, &res); err != nil {
			return res, err
		}
	}

	res.RolloutType = c.Head.Purpose.Type(res.CaptureLevel, res.Usage.Turns)

	return res, nil
}

// key is the key of a blob of the attempt.
func (c *Composer) key(name string) string {
	return store.AttemptKey(c.Target.RolloutID, c.Target.Attempt, name)
}

// addReport adds the report about the attempt's endpoint. The trace has been added before.
func (c *Composer) addReport(ctx context.Context, res *rollout.Result) error {
	var r rollout.EndpointReport
	if err := c.Store.JSON(ctx, c.key(store.Endpoint), &r); fault.Ignore(err, fault.NotFound) != nil {
		return err
	}

	res.CaptureLevel = r.Level(trajectory.LevelOf(res.ProxyTurns))

	res.LogprobsMode, res.ToolSupport, res.Findings = r.LogprobsMode, r.ToolSupport, r.Findings
	for _, fix := range r.ParamFixes {
		addFix(res, fix)
	}

	return nil
}

func (c *Composer) addEvents(ctx context.Context, res *rollout.Result) error {
	data, err := c.Store.Tail(ctx, c.key(store.AgentEvents), utf8.UTFMax*logTail)
	if err != nil {
		return fault.Ignore(err, fault.NotFound)
	}

	res.AgentLogTail = text.Tail(text.LastLines(string(data), eventsTail), logTail)

	return nil
}

func (c *Composer) addSetup(ctx context.Context, res *rollout.Result) error {
	return fault.Ignore(c.Store.JSON(ctx, c.key(store.Setup), &res.SetupResults), fault.NotFound)
}

func (c *Composer) addServices(ctx context.Context, res *rollout.Result) error {
	return fault.Ignore(c.Store.JSON(ctx, c.key(store.Services), &res.Services), fault.NotFound)
}

func (c *Composer) addGrading(ctx context.Context, res *rollout.Result) error {
	record, err := grading.ReadRecord(ctx, c.Store, c.Target)
	if err != nil {
		return fault.Ignore(err, fault.NotFound)
	}

	res.Grading = record.GradingOf(res.Outcome)
	if res.Grading.Status != rollout.NotGraded {
		res.Rewards = record.Rewards
		// a step's verifier does not know the numbers of the turns before
		if len(c.Head.Steps) == 0 {
			res.TurnRewards = record.TurnRewards
		}
	}

	res.VerifyResults, res.VerifierStdout, res.VerifierStderr = record.Commands, record.Stdout, record.Stderr
	if record.Script != nil {
		res.TestExitCode = &record.Script.ExitCode
	}

	return nil
}

// addSteps adds the gradings of the task's steps.
func (c *Composer) addSteps(ctx context.Context, res *rollout.Result) error {
	if len(c.Head.Steps) == 0 {
		return nil
	}

	res.Steps = slices.Clone(c.Head.Steps)

	for n := range res.Steps {
		step := &res.Steps[n]
		step.Grading = rollout.Grading{Status: cmp.Or(step.Grading.Status, rollout.NotGraded), Why: step.Grading.Why}

		record, err := grading.ReadRecord(ctx, c.Store, rollout.Target{RolloutID: c.Target.RolloutID, Attempt: step.Attempt})
		if fault.Ignore(err, fault.NotFound) != nil {
			return err
		}

		if err == nil {
			describe(step, record, n == len(res.Steps)-1)
		}
	}

	if last := res.Steps[len(res.Steps)-1]; last.Grading.Status != rollout.NotGraded {
		res.Grading = last.Grading
	}

	if !c.Head.FinalReward {
		res.Rewards = meanRewards(res.Steps)
	}

	return nil
}

// describe adds what a step's verifier recorded. The output of the last step is the result's own.
func describe(step *rollout.StepResult, record grading.Record, last bool) {
	step.Grading, step.Rewards = record.GradingOf(step.Outcome), record.Rewards

	if last {
		return
	}

	step.VerifyResults, step.VerifierStdout, step.VerifierStderr = record.Commands, record.Stdout, record.Stderr
	if record.Script != nil {
		step.TestExitCode = &record.Script.ExitCode
	}
}

// meanRewards are the means of the named rewards of the steps that were graded; nil: no step named any. A reward that
// a step did not name counts 0, but for its own.
func meanRewards(steps []rollout.StepResult) map[string]float64 {
	sums, graded, named := map[string]float64{}, 0.0, false

	for _, step := range steps {
		if step.Reward == nil {
			continue
		}

		graded++
		named = named || len(step.Rewards) > 0

		if len(step.Rewards) == 0 {
			sums[rollout.RewardName] += *step.Reward
		}

		for name, reward := range step.Rewards {
			sums[name] += reward
		}
	}

	if !named {
		return nil
	}

	for name := range sums {
		sums[name] /= graded
	}

	return sums
}

// addLinks adds the keys of the attempt's existing blobs, by their names without endings.
func (c *Composer) addLinks(ctx context.Context, res *rollout.Result) error {
	for _, name := range []string{
		store.Trace, store.RoutedExperts, store.Images, store.Transcript, store.AgentEvents, store.OpencodeOutput,
		store.AgentOutput, store.Home, store.Setup, store.Grading, store.Resources, store.VerifierStdout, store.VerifierStderr, store.Network,
	} {
		key := c.key(name)

		there, err := c.Store.Exists(ctx, key)
		if err != nil {
			return err
		}

		if there {
			res.Links[linkName(name)] = key
		}
	}

	return nil
}

// linkName is the name of a blob in the API: "trace", "verifier.stdout".
func linkName(name string) string {
	for _, ending := range []string{".jsonl", ".json", ".tar", ".log", ".bin"} {
		name = strings.TrimSuffix(name, ending)
	}

	return name
}

// addCauses adds the causes of all attempts.
func (c *Composer) addCauses(ctx context.Context, res *rollout.Result) error {
	for _, attempt := range c.Head.Attempts {
		causes, err := grading.ReadCauses(ctx, c.Store, rollout.Target{
			RolloutID: c.Target.RolloutID,
			Attempt:   attempt.Number,
		})
		if err != nil {
			return err
		}

		res.ResourceCauses = append(res.ResourceCauses, causes...)
	}

	return nil
}
