package grading

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

const (
	maxRewardFile = 4096 // bytes that are read of the reward file
	maxReward     = 64   // bytes of the number in it
)

// decimal is the grammar of a reward. It takes what Python prints (1e-05) and what bc prints (.33), and none of the other forms
// that strconv reads: hexadecimal, underscores, inf and nan.
var decimal = regexp.MustCompile(`^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?$`)

// parseReward returns the number in a reward file, or why it has no number in the verifier's range.
func parseReward(file string, v rollout.Verifier) (reward float64, problem string) {
	number := strings.TrimSpace(file)
	if len(number) > maxReward || !decimal.MatchString(number) {
		return 0, fmt.Sprintf("the reward file holds %q, not a decimal number of at most %d characters",
			text.Head(strings.ToValidUTF8(number, "?"), 80), maxReward)
	}
	reward, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Sprintf("the reward file holds %s: %v", number, err)
	}
	if least, most := v.Range(); reward < least || reward > most {
		return 0, fmt.Sprintf("the reward file holds %s, outside the task's reward_range [%g, %g]", number, least, most)
	}
	return reward, ""
}

// passed is the share of commands that ended with exit code 0.
func passed(commands []rollout.CommandResult) float64 {
	n := 0
	for _, c := range commands {
		if c.ExitCode == 0 {
			n++
		}
	}
	return float64(n) / float64(len(commands))
}
