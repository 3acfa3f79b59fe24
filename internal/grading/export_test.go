package grading

import (
	"io"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// ParseReward exports parseReward for its table test and for fuzzing.
func ParseReward(text string, v rollout.Verifier) (float64, string) { return parseReward(text, v) }

// ParseRewards exports parseRewards.
func ParseRewards(text string, v rollout.Verifier) (map[string]float64, float64, string) {
	return parseRewards(text, v)
}

// ParseTurnRewards exports parseTurnRewards.
func ParseTurnRewards(text string) ([]rollout.TurnReward, error) { return parseTurnRewards(text) }

// Exclude exports exclude.
func Exclude(content io.Reader, patterns []string) (io.Reader, error) {
	return exclude(content, patterns)
}

// CommandArgs exports commandArgs.
func CommandArgs(command string) []string { return commandArgs(command) }

// Brings exports whether a verifier may bring files of the work to its tests.
func Brings(v rollout.Verifier) bool {
	file, err := parsed(v.Script)
	return err != nil || brings(v, file)
}

// NamesOnlyTests exports namesOnlyTests.
func NamesOnlyTests(script string) bool { return namesOnlyTests(script) }

// PlainValues exports plainValues.
const PlainValues = plainValues

// Inserted exports a text with guards of its arithmetic, and what they use.
func Inserted(text string) string {
	file, err := parsed(text)
	if err != nil {
		return text
	}

	return plainValues + insert(text, guards(file, text))
}

// GuardedFile exports testFileText.
func GuardedFile(text string) string { return testFileText(text) }
