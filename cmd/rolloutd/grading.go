package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// gradingFlags say how tasks are graded and what they may reach, in place of what each says.
type gradingFlags struct {
	// verifier.grade; "": as each task says
	grade string

	// reward_key; "": as each task says
	rewardKey string

	// allow_network; false: as each task says
	network bool
}

func (f *gradingFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.grade, "grade", "",
		"verifier.grade instead of the task's: fresh ends all that the agent has left running; live lets services go on while the tests run; shared runs the tests in the agent's sandbox. A task with verifier.image is graded fresh, and one with steps not shared")
	fl.StringVar(&f.rewardKey, "reward-key", "",
		"reward_key instead of the task's: which reward of reward.json counts, or several separated by commas: the first that is there")
}

// registerNetwork is for commands that start rollouts.
func (f *gradingFlags) registerNetwork(fl *pflag.FlagSet) {
	fl.BoolVar(&f.network, "allow-network", false,
		"allow_network for all tasks: they reach each host that the operator allows, where they have no list of hosts; with --grade shared their tests do too")
}

func (f *gradingFlags) validate() error {
	if f.grade != "" && !slices.Contains(rollout.Grades(), f.grade) {
		return fmt.Errorf("--grade: must be %s, got %q", strings.Join(rollout.Grades(), ", "), f.grade)
	}

	return nil
}

// changes are those of a task's arguments; see taskset.Change.
func (f *gradingFlags) changes() map[string]any {
	changes := map[string]any{}

	if f.grade != "" {
		changes["verifier"] = map[string]any{"grade": f.grade}
	}

	if f.rewardKey != "" {
		changes["reward_key"] = f.rewardKey
	}

	if f.network {
		changes["allow_network"] = true
	}

	return changes
}

// gradeOf is how a task is graded.
func (f *gradingFlags) gradeOf(t taskset.Task) string {
	args := t.Arguments()
	taskset.Change(args, f.changes())

	return taskset.GradeOf(args)
}
