package e2e

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// outcome is the part of a result that must not depend on where the rollout ran.
type outcome struct {
	Outcome rollout.Outcome
	Error   string
	Reward  float64
	Grading rollout.Grading
	Setup   []rollout.CommandResult
	Verify  []rollout.CommandResult
	Files   map[string]string
	Turns   []sampled
	Usage   rollout.Usage
}

// sampled is one turn as a trainer gets it.
type sampled struct {
	Kind   rollout.TurnKind
	Branch rollout.Branch
	Train  bool
	Finish rollout.FinishReason

	// the last message of the request
	Asked any

	// tokens of the prompt
	Length int

	// a digest of the ids of the prompt
	Prompt string

	// the completion
	Said string

	// a digest of the ids of the completion and of the log-probabilities
	Tokens string
}

func outcomeOf(t *testing.T, r rollout.Result) outcome {
	t.Helper()
	require.NotNil(t, r.Reward, "%s %s", r.Outcome, deref(r.Error))

	o := outcome{
		Outcome: r.Outcome,
		Error:   deref(r.Error),
		Reward:  *r.Reward,
		Grading: r.Grading,
		Setup:   r.SetupResults,
		Verify:  r.VerifyResults,
		Files:   r.Files,
		Usage:   r.Usage,
	}
	for _, results := range [][]rollout.CommandResult{o.Setup, o.Verify} {
		for n := range results {
			results[n].DurationS = 0
		}
	}

	for _, turn := range r.ProxyTurns {
		require.NotEmpty(t, turn.CompletionTokenIDs)
		o.Turns = append(o.Turns, sampledOf(turn))
	}

	return o
}

func sampledOf(turn rollout.CompactTurn) sampled {
	s := sampled{
		Kind:   turn.Kind,
		Branch: turn.Branch,
		Train:  turn.Train,
		Finish: turn.FinishReason,
		Length: len(turn.PromptTokenIDs),
		Prompt: digest(turn.PromptTokenIDs),
		Said:   strings.Join(turn.CompletionTokens, ""),
		Tokens: digest(turn.CompletionTokenIDs, turn.PerTokenLogps),
	}
	if messages, ok := turn.Request["messages"].([]any); ok && len(messages) > 0 {
		s.Asked = messages[len(messages)-1]
	}

	return s
}

func digest(values ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, values...)))
}

// withoutTimes removes the texts that differ between two runs of the same rollout: OpenCode writes the date
// and its folder into prompts, and a verifier may print how long it took.
func (o outcome) withoutTimes() outcome {
	for n := range o.Turns {
		o.Turns[n].Asked, o.Turns[n].Prompt = nil, ""
	}

	for _, results := range [][]rollout.CommandResult{o.Setup, o.Verify} {
		for n := range results {
			results[n].Stdout, results[n].Stderr = "", ""
		}
	}

	// for a minute after an image is imported, its folders that sandboxd cannot read count as changed
	o.Grading.Unseen = slices.DeleteFunc(o.Grading.Unseen, func(path string) bool {
		return path == "/closed" || path == "/ofgroup"
	})
	if len(o.Grading.Unseen) == 0 {
		o.Grading.Unseen = nil
	}

	return o
}
