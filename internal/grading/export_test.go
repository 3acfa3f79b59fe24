package grading

import "github.com/rolloutd/rolloutd/internal/rollout"

// ParseReward is parseReward, for its table test and fuzzing.
func ParseReward(text string, v rollout.Verifier) (float64, string) { return parseReward(text, v) }

// CommandArgs is commandArgs.
func CommandArgs(command string) []string { return commandArgs(command) }
