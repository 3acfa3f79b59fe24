package grading

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

const (
	// bytes that are read of the reward file
	maxRewardFile = 4096

	// bytes that are read of the file of named rewards
	maxRewardsFile = 64 << 10

	// bytes that are read of the file of rewards of turns
	maxTurnRewardsFile = 256 << 10

	// bytes of a number in them
	maxReward = 64
)

// decimal is the grammar of a reward. It takes what Python prints (1e-05) and what bc prints (.33), and
// none of the other forms that strconv reads: hexadecimal, underscores, inf and nan.
var decimal = regexp.MustCompile(`^-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?$`)

// parseRewards returns the named rewards of a JSON object of numbers, and the one that is the rollout's; or
// why there is none in the verifier's range. Harbor's verifiers write such a file.
func parseRewards(file string, v rollout.Verifier) (all map[string]float64, reward float64, problem string) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(file), &fields); err != nil || len(fields) == 0 || len(fields) > rollout.MaxRewards {
		return nil, 0, fmt.Sprintf("reward.json holds %s, not a JSON object of 1 to %d numbers",
			quoteHead(file), rollout.MaxRewards)
	}

	all = map[string]float64{}

	for name, raw := range fields {
		number := string(raw)

		// as in Harbor, whose verifiers may write whether the tests passed
		switch number {
		case "true":
			number = "1"
		case "false":
			number = "0"
		}

		value, err := strconv.ParseFloat(number, 64)
		if err != nil || len(number) > maxReward || len(name) > rollout.MaxRewardName || !decimal.MatchString(number) {
			return nil, 0, fmt.Sprintf("reward.json: %s: must be a number, got %s", quoteHead(name), quoteHead(number))
		}

		all[name] = value
	}

	name, ok := v.MainReward(all)
	if !ok {
		names := strings.Join(slices.Sorted(maps.Keys(all)), ", ")

		return all, 0, fmt.Sprintf("reward.json has no reward %q, but %s; name one by reward_key",
			cmp.Or(v.RewardKey, "reward"), names)
	}

	reward = all[name]
	if least, most := v.Range(); reward < least || reward > most {
		return all, 0, fmt.Sprintf("reward.json: %s is %g, outside the task's reward_range [%g, %g]",
			name, reward, least, most)
	}

	return all, reward, ""
}

// parseTurnRewards returns the rewards of turns in a JSON list of {"turn", "name", "reward"}, in the order of the turns.
// The name may be absent.
func parseTurnRewards(file string) ([]rollout.TurnReward, error) {
	const name = "turn_rewards.json"

	var list []struct {
		Turn   int
		Name   string
		Reward *float64
	}

	from := json.NewDecoder(strings.NewReader(file))
	from.DisallowUnknownFields()

	if err := from.Decode(&list); err != nil || from.More() {
		return nil, fmt.Errorf("%s holds %s, not a JSON list of objects with turn, reward and maybe name", name, quoteHead(file))
	}

	var turns []rollout.TurnReward

	for i, one := range list {
		if one.Reward == nil {
			return nil, fmt.Errorf("%s[%d].reward: must be a number", name, i)
		}

		turns = append(turns, rollout.TurnReward{Turn: one.Turn, Name: one.Name, Reward: *one.Reward})
	}

	rollout.SortTurnRewards(turns)

	return turns, rollout.CheckTurnRewards(name, turns)
}

func quoteHead(s string) string {
	return strconv.Quote(text.Head(strings.ToValidUTF8(strings.TrimSpace(s), "?"), 80))
}

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
