package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Each outcome names what went wrong, and a rollout has a reward only if the policy earned it.
func TestOutcomes(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{script: outcomesScript})
	for _, tc := range []struct {
		name    string
		args    args
		outcome rollout.Outcome

		// float64, or nil
		reward  any
		errSays string
	}{
		{
			"verify commands count by the share that passed",
			args{
				"instruction": "say hello",
				"verify":      []string{"true", "false", "test -d /home/user/workdir", "exit 3"},
			},
			rollout.Completed, 0.5, "",
		},
		{
			"the reward file of a test script wins over commands",
			args{
				"instruction": "say hello",
				"test_script": "echo 0.25 > /home/user/logs/verifier/reward.txt",
				"verify":      []string{"true"},
			},
			rollout.Completed, 0.25, "",
		},
		{
			"commands write no reward file",
			args{
				"instruction": "say hello",
				"verify":      []string{"echo 0.25 > /home/user/logs/verifier/reward.txt", "false"},
			},
			rollout.Completed, 0.5, "",
		},
		{
			"a reward outside the range of the task",
			args{
				"instruction":  "say hello",
				"test_script":  "echo 2 > /home/user/logs/verifier/reward.txt",
				"reward_range": []float64{-1, 1.5},
			},
			rollout.VerifierFailed, nil, "holds 2, outside the task's reward_range [-1, 1.5]",
		},
		{
			"files of the verifier, which the agent does not see",
			args{
				"instruction":  "say hello",
				"verify":       []string{"cat /home/user/tests/want", "cat ~/tests/sub/want"},
				"test_files":   args{"want": "x"},
				"upload_files": args{"/home/user/tests/sub/want": "y"},
				"setup":        []string{"! ls /home/user/tests"},
			},
			rollout.Completed, 1.0, "",
		},
		{
			"no verifier, no reward",
			args{"instruction": "say hello"},
			rollout.Completed, nil, "",
		},
		{
			"setup fails",
			args{
				"instruction": "say hello",
				"setup":       []string{"true", "echo no such package >&2; exit 7", "touch never"},
				"verify":      []string{"true"},
			},
			rollout.SetupFailed, nil, "exit",
		},
		{
			"the verifier writes nan",
			args{"instruction": "say hello", "test_script": "echo nan > /home/user/logs/verifier/reward.txt"},
			rollout.VerifierFailed, nil, "nan",
		},
		{
			"the verifier writes nothing",
			args{"instruction": "say hello", "test_script": "true"},
			rollout.Completed, 0.0, "",
		},
		{
			"the agent writes its own reward",
			args{"instruction": "cheat please", "agent": rollout.AgentReact, "test_script": "true"},
			rollout.Completed, 0.0, "",
		},
		{
			"the agent puts other things where the verifier needs folders",
			args{
				"instruction": "spoil the folders",
				"agent":       rollout.AgentReact,
				"test_script": "echo 0.0 > /home/user/logs/verifier/reward.txt",
			},
			rollout.Completed, 0.0, "",
		},
		{
			"the runner of a verify command is missing",
			args{"instruction": "say hello", "verify": []string{"true", "no-such-runner -q"}},
			rollout.VerifierFailed, nil, `no program "no-such-runner" in PATH`,
		},
		{
			"the agent removes the runner of a verify command",
			args{
				"instruction":  "remove the runner",
				"agent":        rollout.AgentReact,
				"upload_files": args{"run-tests": "#!/bin/bash\n"},
				"setup":        []string{"chmod +x run-tests; ./run-tests"},
				"verify":       []string{"./run-tests"},
			},
			rollout.Completed, 0.0, "",
		},
		{
			"a turn budget is spent",
			args{
				"instruction": "loop without end",
				"agent":       rollout.AgentReact,
				"verify":      []string{"true"},
				"limits":      args{"turns": 4},
			},
			rollout.BudgetExhausted, 1.0, "turns",
		},
		{
			"the agent runs out of time",
			args{"instruction": "loop slowly", "agent": rollout.AgentReact, "verify": []string{"true"}, "agent_timeout_s": 20},
			rollout.AgentTimeout, 1.0, "20s",
		},
		{
			"the endpoint refuses the key",
			args{"instruction": "refuse the key", "agent": rollout.AgentReact, "verify": []string{"true"}},
			rollout.InfraFailed, nil, "401",
		},
		{
			"passing faults of the endpoint are not the agent's to see",
			args{"instruction": "fail now and then", "verify": []string{"test -f done.txt"}},
			rollout.Completed, 1.0, "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			tc.args["endpoint"] = "scripted"
			// an agent that only answers may be the one that starts faster
			if tc.args["instruction"] == "say hello" {
				tc.args["agent"] = rollout.AgentReact
			}

			got := runRollout(t, srv.url, tc.args)
			require.Equal(t, tc.outcome, got.Outcome, "error: %v", deref(got.Error))

			if tc.outcome == rollout.SetupFailed {
				require.Nil(t, got.AgentExitCode, "the agent never ran")
			}

			if tc.reward == nil {
				require.Nil(t, got.Reward)
			} else {
				require.NotNil(t, got.Reward)
				require.InDelta(t, tc.reward, *got.Reward, 1e-9)
			}

			if tc.errSays == "" {
				require.Nil(t, got.Error)
			} else {
				require.Contains(t, deref(got.Error), tc.errSays)
			}
		})
	}
}

// Bad input is refused before a rollout or a sandbox exists, and the message names the argument.
func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	for _, tc := range []struct {
		name  string
		args  args
		names string
	}{
		{"no instruction", args{"endpoint": "scripted"}, "instruction"},
		{"empty instruction", args{"instruction": "  ", "endpoint": "scripted"}, "instruction"},
		{"unknown endpoint", args{"instruction": "x", "endpoint": "gpt"}, "endpoint"},
		{"missing key", args{"instruction": "x", "endpoint": "openai"}, "OPENAI_API_KEY"},
		{"negative timeout", args{
			"instruction":     "x",
			"endpoint":        "scripted",
			"agent_timeout_s": -1,
		}, "agent_timeout_s"},
		{"deadlines that cannot nest", args{
			"instruction":     "x",
			"endpoint":        "scripted",
			"agent_timeout_s": 600,
			"limits":          args{"rollout_s": 300},
		}, "limits.rollout_s"},
		{"upload outside the home", args{
			"instruction":  "x",
			"endpoint":     "scripted",
			"upload_files": args{"/etc/passwd": "x"},
		}, "upload_files"},
		{"upload that climbs out", args{
			"instruction":  "x",
			"endpoint":     "scripted",
			"upload_files": args{"../../../etc/passwd": "x"},
		}, "upload_files"},
		{"unknown argument", args{"instruction": "x", "endpoint": "scripted", "intsruction": "y"}, "intsruction"},
	} {
		_, err := call(t.Context(), srv.url, "start_rollout", tc.args)
		require.ErrorContains(t, err, tc.names, tc.name)
	}

	require.Empty(t, srv.sandboxes(t))
	require.Empty(t, srv.workflows(t))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}

	return *s
}

// outcomesScript makes the agent do what each case needs.
const outcomesScript = `
- name: loops
  match: loop without end
  hermes: true
  loop: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "echo again"}}]
- name: slow
  match: loop slowly
  hermes: true
  loop: true
  pace: {delay: 1s}
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "echo again"}}]
- name: refuses
  match: refuse the key
  turns:
    - faults: [{status: 401, message: "invalid api key"}]
- name: cheats
  match: cheat please
  hermes: true
  turns:
    - tool_calls:
        - name: terminal
          arguments:
            command: "mkdir -p /home/user/logs/verifier && echo 1.0 > /home/user/logs/verifier/reward.txt; (setsid sh -c 'while true; do echo 1.0 > /home/user/logs/verifier/reward.txt; sleep 0.05; done' >/dev/null 2>&1 &)"
    - text: Done.
- name: spoils
  match: spoil the folders
  hermes: true
  turns:
    - tool_calls:
        - name: terminal
          arguments:
            command: "cd /home/user && rm -rf logs tests workdir && ln -s /tmp logs && ln -s /etc tests && echo x > workdir; ls -la"
    - text: Done.
- name: removes
  match: remove the runner
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "rm /home/user/workdir/run-tests"}}]
    - text: Done.
- name: flaky
  match: fail now and then
  turns:
    - faults: [{times: 1, status: 500}, {times: 1, status: 429, retry_after: 1s}]
      tool_calls: [{name: bash, arguments: {command: "echo one > done.txt", description: "First"}}]
    - faults: [{times: 1, cut_after: 3}, {times: 1, no_finish: true}]
      text: All done.
- name: hello
  turns:
    - text: Hello.
`
