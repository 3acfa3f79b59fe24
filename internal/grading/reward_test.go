package grading_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestParseReward(t *testing.T) {
	t.Parallel()

	wide := []float64{-2.5, 10}
	for _, c := range []struct {
		file   string
		bounds []float64
		want   float64

		// part of the problem; empty: there is none
		says string
	}{
		{file: "0", want: 0}, {file: "1", want: 1}, {file: " 0.25\n", want: 0.25}, {file: "1e-05", want: 1e-05},
		{file: ".33", want: 0.33}, {file: "1.", want: 1}, {file: "-0", want: 0}, {file: "0005e-1", want: 0.5},
		{file: "-2.5", bounds: wide, want: -2.5}, {file: "10", bounds: wide, want: 10},
		{
			file: "1.0000001",
			says: "outside the task's reward_range [0, 1]",
		}, {file: "-0.1", says: "holds -0.1, outside"},
		{
			file: "1e6",
			says: "holds 1e6, outside",
		}, {file: "1e308", says: "outside"}, {file: "1e999", says: "out of range"},
		{file: "10.5", bounds: wide, says: "outside the task's reward_range [-2.5, 10]"},
		{
			file: "0x1p3",
			says: `holds "0x1p3", not a decimal number`,
		}, {file: "1_0", says: "not a decimal"}, {file: "+1", says: "not a decimal"},
		{
			file: "nan",
			says: "not a decimal",
		}, {file: "-inf", says: "not a decimal"}, {file: "Infinity", says: "not a decimal"},
		{
			file: "1 0",
			says: "not a decimal",
		}, {file: "1\n1", says: "not a decimal"}, {file: "\u0661", says: "not a decimal"},
		{file: "true", says: "not a decimal"}, {file: "1\x00", says: "not a decimal"}, {file: "\xff", says: `"?"`},
		{
			file: "0." + strings.Repeat("0", 62),
			want: 0,
		}, {file: "0." + strings.Repeat("0", 63), says: "at most 64 characters"},
	} {
		reward, problem := grading.ParseReward(c.file, rollout.Verifier{RewardRange: c.bounds})
		if c.says == "" {
			require.Empty(t, problem, "%q", c.file)
			require.InDelta(t, c.want, reward, 0, "%q", c.file)

			continue
		}

		require.Contains(t, problem, c.says, "%q", c.file)
	}
}

// A file of named rewards gives the one that the task names, the one called reward, or the only one. All are kept.
func TestParseRewards(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		file, key string
		want      float64
		count     int

		// part of the problem; empty: there is none
		says string
	}{
		{file: `{"reward": 0.75, "lines": 3}`, want: 0.75, count: 2}, {file: `{"score": 1}`, want: 1, count: 1},
		{file: ` {"a": 0.5, "b": 1e-05} `, key: "b", want: 1e-05, count: 2}, {file: `{"reward": 0}`, want: 0, count: 1},
		{file: `{"a": 1, "b": 0}`, count: 2, says: `has no reward "reward", but a, b; name one by reward_key`},
		{file: `{"reward": 1}`, key: "b", count: 1, says: `has no reward "b", but reward`},
		{file: `{"reward": 2}`, count: 1, says: "reward is 2, outside the task's reward_range [0, 1]"},
		{
			file: `[1]`,
			says: "not a JSON object of 1 to 100 numbers",
		}, {file: `{}`, says: "not a JSON object"}, {file: `1`, says: "not a JSON object"},
		{
			file: `null`,
			says: "not a JSON object",
		}, {file: `{"reward": NaN}`, says: "not a JSON object"}, {file: `{"reward": 1`, says: "not a JSON object"},
		{file: `{"reward": true, "b": false}`, want: 1, count: 2}, {file: `{"reward": false}`, want: 0, count: 1},
		{
			file: `{"reward": "1"}`,
			says: `"reward": must be a number, got "\"1\""`,
		}, {file: `{"reward": "true"}`, says: "must be a number"},
		{file: `{"reward": null}`, says: "must be a number"}, {file: `{"reward": {"x": 1}}`, says: "must be a number"},
		{
			file: `{"reward": 1e999}`,
			says: "must be a number",
		}, {file: `{"reward": 0.` + strings.Repeat("0", 64) + `}`, says: "must be a number"},
		{file: `{"` + strings.Repeat("x", 200) + `": 1}`, says: "must be a number"},
	} {
		all, reward, problem := grading.ParseRewards(c.file, rollout.Verifier{RewardKey: c.key})
		require.Len(t, all, c.count, "%q", c.file)

		if c.says == "" {
			require.Empty(t, problem, "%q", c.file)
			require.InDelta(t, c.want, reward, 0, "%q", c.file)

			continue
		}

		require.Contains(t, problem, c.says, "%q", c.file)
	}
}

// A program of the tests may write named rewards, which take precedence over the number in reward.txt.
func TestNamedRewards(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	a.agent(t, "named", cheat{})

	v := rollout.Verifier{
		Script:    "echo 1 > $VERIFIER_DIR/reward.txt; python3 $TESTS_DIR/score.py\n",
		RewardKey: "score",
		Files: map[string]string{
			"score.py": "import json\njson.dump({'score': 0.25, 'lines': 3}, open('/home/user/logs/verifier/reward.json', 'w'))\n",
		},
	}
	record := a.grade(t, "named", 0, style{verifier: v}, 5*time.Minute)
	require.NotNil(t, record.Reward, "%+v", record)
	require.InDelta(t, 0.25, *record.Reward, 0)
	require.Equal(t, map[string]float64{"score": 0.25, "lines": 3}, record.Rewards)
}

// A test script may write rewards of turns beside its reward. A file that is none of them is the verifier's fault.
func TestTurnRewards(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)

	write := func(list string) rollout.Verifier {
		return rollout.Verifier{Script: "echo 1 > $VERIFIER_DIR/reward.txt; echo '" + list + "' > $VERIFIER_DIR/turn_rewards.json\n"}
	}

	a.agent(t, "turns", cheat{})
	record := a.grade(t, "turns", 0, style{verifier: write(`[{"turn": 3, "reward": -0.5}, {"turn": 1, "name": "style", "reward": 1}]`)}, 5*time.Minute)
	require.NotNil(t, record.Reward, "%+v", record)
	require.Equal(t, []rollout.TurnReward{{Turn: 1, Name: "style", Reward: 1}, {Turn: 3, Reward: -0.5}}, record.TurnRewards)

	a.agent(t, "none", cheat{})
	record = a.grade(t, "none", 0, style{verifier: write(`{"1": 0.5}`)}, 5*time.Minute)
	require.Nil(t, record.Reward)
	require.Equal(t, rollout.NoUsableReward, record.Grading.Status)
	require.Contains(t, record.Error, "turn_rewards.json")
}

func TestParseTurnRewards(t *testing.T) {
	t.Parallel()

	for file, says := range map[string]string{
		`[]`:                                   "",
		`[{"turn":1,"reward":0.5}]`:            "",
		`{}`:                                   "not a JSON list",
		`[{"turn":1,"reward":0.5}] 2`:          "not a JSON list",
		`[{"turn":1,"reward":0.5,"call":"x"}]`: "not a JSON list",
		`[{"turn":1,"reward":"1"}]`:            "not a JSON list",
		`[{"turn":1,"reward":1e999}]`:          "not a JSON list",
		`[{"turn":1}]`:                         "reward: must be a number",
		`[{"turn":0,"reward":1}]`:              "must be the number of a turn, from 1, got 0",
		`[{"turn":1,"reward":1},{"turn":1,"reward":2}]`:                                 "must have one reward of each turn and name",
		`[` + strings.Repeat(`{"turn":1,"reward":1},`, 3000) + `{"turn":1,"reward":1}]`: "must be at most 2000",
	} {
		_, err := grading.ParseTurnRewards(file)
		if says == "" {
			require.NoError(t, err, file)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}

// A reward file that cannot be read is the verifier's fault: the work cannot write it.
func TestUnreadableRewardFiles(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)

	for name, script := range map[string]string{
		"large":  "head -c 10000000 /dev/zero > $VERIFIER_DIR/reward.json",
		"folder": "mkdir $VERIFIER_DIR/reward.txt",
		"link":   "ln -s /dev/zero $VERIFIER_DIR/reward.txt",
	} {
		a.agent(t, name, cheat{})

		record := a.grade(t, name, 0, style{verifier: rollout.Verifier{Script: script}}, 5*time.Minute)
		require.Nil(t, record.Reward, "%s: %+v", name, record)
		require.Equal(t, rollout.NoUsableReward, record.Grading.Status, name)
		require.Contains(t, record.Error, "read the reward file", name)
	}
}
