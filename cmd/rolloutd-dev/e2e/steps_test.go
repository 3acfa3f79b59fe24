package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// stepsScript plays the steps of a task by their instructions. %s is the shell tool of the agent.
func stepsScript(shell, hermes string) string {
	entry := func(name, command string) string {
		return `
- name: ` + name + `
  match: ` + name + `
  hermes: ` + hermes + `
  turns:
    - tool_calls: [{name: ` + shell + `, arguments: {description: work, command: "` + command + `"}}]
    - text: Done.
`
	}

	return entry("write the number", "echo 1 > one.txt") +
		entry("double the number", "echo $((2 * $(cat one.txt))) > two.txt") +
		entry("spoil the setup", "echo 1 > one.txt; mkdir blocked") +
		entry("spoil the packages", "d=$(python3 -m site --user-site); mkdir -p $d; echo 'import os; os._exit(0)' > $d/usercustomize.py") +
		entry("do nothing", "true")
}

// stepArgs are the arguments of a task of two steps, the second of which needs the first one's work.
func stepArgs(agent string) args {
	return args{
		"instruction": "two numbers", "endpoint": "scripted", "agent": agent,
		"steps": []args{
			{
				"name": "first", "instruction": "write the number",
				"test_script": `[ "$(cat one.txt)" = 1 ] && echo 1 > $VERIFIER_DIR/reward.txt`,
				"min_reward":  args{"reward": 1},
			},
			{
				"name": "second", "instruction": "double the number", "setup": []string{"test -f one.txt", "touch ready"},
				"test_script": `[ -f ready ] && [ "$(cat two.txt)" = 2 ] && echo '{"reward": 1, "speed": 0.5}' > $VERIFIER_DIR/reward.json`,
			},
		},
	}
}

// The steps of a task are conversations of their own, in one trace, and each begins in the work of the one before.
func TestSteps(t *testing.T) {
	t.Parallel()

	for agent, script := range map[string]string{
		rollout.AgentOpencode: stepsScript("bash", "false"),
		rollout.AgentReact:    stepsScript("terminal", "true"),
	} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()

			srv := startDev(t, devOptions{script: script})
			result := runRollout(t, srv.url, stepArgs(agent))
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward, "%+v", result.Steps)
			require.Equal(t, 1.0, *result.Reward, "%+v", result.Steps)
			require.Equal(t, map[string]float64{"reward": 1, "speed": 0.25}, result.Rewards)
			require.Equal(t, "2\n", result.Files["/home/user/workdir/two.txt"])

			require.Len(t, result.Steps, 2)
			require.Equal(t, "second", result.Steps[1].Name)
			require.Equal(t, rollout.Graded, result.Steps[1].Grading.Status)
			require.Equal(t, map[string]float64{"reward": 1, "speed": 0.5}, result.Steps[1].Rewards)

			require.Len(t, result.ProxyTurns, 4)
			require.Equal(t, 4, result.Usage.Turns)

			for n, turn := range result.ProxyTurns {
				require.Equal(t, n+1, turn.Turn)
				require.Nil(t, turn.PrefixBreak)
			}

			require.Equal(t, result.ProxyTurns[0].Lineage, result.ProxyTurns[1].Lineage)
			require.Equal(t, "step2.", result.ProxyTurns[2].Lineage[:6])
			require.NotContains(t, fmt.Sprint(result.ProxyTurns[2].Request["messages"]), "write the number", "a new conversation")
		})
	}
}

// What a policy leaves in one step earns it nothing in the next one.
func TestCheatsOverSteps(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{script: stepsScript("terminal", "true")})
	grade := `echo 1 > $VERIFIER_DIR/reward.txt`

	for name, c := range map[string]struct {
		first   string
		second  args
		outcome rollout.Outcome
		reward  float64
	}{
		"a setup that cannot succeed any more": {
			"spoil the setup", args{
				"name": "second", "instruction": "do nothing", "test_script": grade,
				"setup": []string{"echo x > blocked"},
			}, rollout.AgentFailed, 0.5,
		},
		"packages that would run in the verifier": {
			"spoil the packages", args{
				"name": "second", "instruction": "do nothing", "setup": []string{"true"},
				"test_script": `python3 -c 'raise SystemExit(1)' && ` + grade + ` || echo 0 > $VERIFIER_DIR/reward.txt`,
			}, rollout.Completed, 0.5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			result := runRollout(t, srv.url, args{
				"instruction": "cheat", "endpoint": "scripted", "agent": rollout.AgentReact,
				"steps": []args{{"name": "first", "instruction": c.first, "test_script": grade}, c.second},
			})
			require.Equal(t, c.outcome, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward, "%+v", result.Steps)
			require.Equal(t, c.reward, *result.Reward, "%+v", result.Steps)
		})
	}

	t.Run("no workdir in which the next agent starts", func(t *testing.T) {
		t.Parallel()

		result := runRollout(t, srv.url, args{
			"instruction": "cheat", "agent": rollout.AgentOracle,
			"steps": []args{
				{"name": "first", "instruction": "spoil", "solution": []string{"cd; rm -r workdir; touch workdir"}, "test_script": grade},
				{"name": "second", "instruction": "do nothing", "solution": []string{"true"}, "test_script": grade},
			},
		})
		require.Equal(t, rollout.AgentFailed, result.Outcome, deref(result.Error))
		require.NotNil(t, result.Reward, "%+v", result.Steps)
		require.InDelta(t, 0.5, *result.Reward, 0, "%+v", result.Steps)
	})
}
