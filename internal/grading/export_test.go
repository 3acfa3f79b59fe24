package grading

import "github.com/rolloutd/rolloutd/internal/rollout"

// ParseReward exports parseReward for its table test and for fuzzing.
func ParseReward(text string, v rollout.Verifier) (float64, string) { return parseReward(text, v) }

// CommandArgs exports commandArgs.
func CommandArgs(command string) []string { return commandArgs(command) }
