package cli_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

func table(r rollout.Result) string {
	var b strings.Builder
	cli.Table(&b, r)

	return b.String()
}

func TestTable(t *testing.T) {
	t.Parallel()

	one := 1.0
	got := table(rollout.Result{
		ID: "r1", Outcome: rollout.Completed, Reward: &one, WallS: 8.25,
		Usage: rollout.Usage{Turns: 5, PromptTokens: 100, CompletionTokens: 20},
		VerifyResults: []rollout.CommandResult{
			{
				Cmd:    "true",
				Stderr: "a warning",
			}, {
				ExitCode: 2,
				Cmd:      "python3 a.py\nls",
				Stderr:   "Traceback:\n  no \x1b[2J such file\n\n",
			}, {ExitCode: 1, Cmd: "false"},
		},
		Files:      map[string]string{"/home/user/workdir/b.py": "", "/home/user/workdir/a.py": ""},
		FilesExtra: []string{"big.bin"},
	})
	require.Equal(t, `  rollout   r1
  outcome   completed
  reward    1
  turns     5 (100 prompt + 20 completion tokens)
  verifier  1 of 3 commands passed
            exit 2: python3 a.py
                no \x1b[2J such file
            exit 1: false
  files     a.py, b.py, and 1 more
  wall      8.2 s
`, got)
}

// A task of several steps has a line for each that ran.
func TestTableOfSteps(t *testing.T) {
	t.Parallel()

	half, none := 0.5, 0.0
	got := table(rollout.Result{ID: "r1", Steps: []rollout.StepResult{
		{Name: "parse", Outcome: rollout.Completed, Reward: &half, Rewards: map[string]float64{"style": 1, "reward": 0.5}},
		{Name: "a\x1b[2J", Outcome: rollout.AgentFailed, Reward: &none, Grading: rollout.Grading{Why: "setup failed"}},
		{Name: "last", Outcome: rollout.InfraFailed},
	}})
	require.Contains(t, got, `  step      1 parse: completed, reward 0.5, reward 0.5, style 1
  step      2 a\x1b[2J: agent_failed, reward 0: setup failed
  step      3 last: infra_failed, not graded
`)
}

// Long commands and outputs are cut; only the first failures are shown.
func TestTableShowsTheFirstFailures(t *testing.T) {
	t.Parallel()

	bad := rollout.CommandResult{ExitCode: 1, Cmd: strings.Repeat("x", 300), Stdout: strings.Repeat("y", 300)}
	got := table(rollout.Result{VerifyResults: []rollout.CommandResult{bad, bad, bad, bad}})
	require.Contains(t, got, "  turns     0\n")
	require.Equal(t, 3, strings.Count(got, "exit 1: "+strings.Repeat("x", 99)+"…\n"))
	require.Equal(t, 3, strings.Count(got, "    "+strings.Repeat("y", 99)+"…\n"))
}

// A missing reward is never shown as 0, and its reason is always shown.
func TestTableSaysWhyThereIsNoReward(t *testing.T) {
	t.Parallel()

	why := "host gone"
	got := table(rollout.Result{
		Outcome: rollout.InfraFailed, Error: &why,
		Attempts: []rollout.Attempt{
			{Number: 1, Outcome: rollout.InfraFailed, Error: "creating_sandbox: no disk\x1b[2J\nleft"},
			{Number: 2, Outcome: rollout.InfraFailed},
			{Number: 3, Outcome: rollout.InfraFailed, Error: why},
		},
	})
	require.Contains(t, got, "reward    none (infra_failed rollouts are not graded)")
	require.Contains(t, got, `  attempts  3
            1: infra_failed: creating_sandbox: no disk\x1b[2J\nleft
            2: infra_failed
`)
	require.Contains(t, got, "error     host gone")
	require.Contains(t, table(rollout.Result{Outcome: rollout.Completed}), "reward    none (no verifier ran)")
}

func TestTableNamesTheFirstFiles(t *testing.T) {
	t.Parallel()

	files := map[string]string{}
	for _, c := range "abcdefghij" {
		files[rollout.Workdir+"/"+string(c)] = ""
	}

	require.Contains(t, table(rollout.Result{
		WorkdirFiles: files,
		FilesExtra:   []string{"x"},
	}), "files     a, b, c, d, e, f, g, h, and 3 more\n")
}

// Scripts rely on the exit codes, so the codes must not change.
func TestExitCodesDifferByOutcome(t *testing.T) {
	t.Parallel()

	want := map[rollout.Outcome]int{
		rollout.Completed: 0, rollout.AgentFailed: 10, rollout.AgentTimeout: 11, rollout.BudgetExhausted: 12,
		rollout.Aborted: 20, rollout.SetupFailed: 30, rollout.VerifierFailed: 31, rollout.InfraFailed: 32, "": 1,
	}
	for outcome, code := range want {
		require.Equal(t, code, cli.ExitCode(outcome), outcome)
		require.Contains(t, cli.ExitCodes, string(outcome))
	}
}

// Text of an agent or a task cannot send commands to the terminal or imitate a row of the table.
func TestTableIsPlainText(t *testing.T) {
	t.Parallel()

	why := "setup: exit code 3: \x1b[2Jboo\r\n\tline two\nline three\u202e\n"
	got := table(rollout.Result{
		ID: "r1", Outcome: rollout.SetupFailed, Error: &why,
		Files: map[string]string{"/home/user/workdir/a\x1b[31m\n  reward    1": "", "/home/user/workdir/größe.py": ""},
	})
	require.Contains(t, got, `  files     a\x1b[31m\n  reward    1, größe.py`+"\n")
	require.Contains(t, got, `  error     setup: exit code 3: \x1b[2Jboo
                line two
            line three\u202e
`)

	var out strings.Builder
	cli.GroupTable(&out, client.Group{GroupState: rollout.GroupState{ID: "g", Error: why}})
	cli.TaskLine(&out, cli.TaskResult{Task: taskset.Task{Name: "a\x1b[31m"}, Err: errors.New(why)})
	cli.RegradeLine(&out, cli.Regraded{RegradeJob: cli.RegradeJob{RolloutID: "r1"}, Err: errors.New(why)})
	require.NotContains(t, out.String(), "\x1b")
	require.NotContains(t, out.String(), "\nline three")
	require.Equal(t, 3, strings.Count(out.String(), `line three\u202e`+"\n"))
}

// The slots of a host with several backends are listed by backend.
func TestHostsShowSlotsByBackend(t *testing.T) {
	t.Parallel()

	now := time.Now()

	var out strings.Builder
	cli.Hosts(&out, []fleet.Host{
		{Name: "one", State: fleet.Running, SeenAt: now, Backends: map[string]fleet.Room{"local": {Slots: 8, Used: 3}}},
		{
			Name:     "two",
			State:    fleet.Running,
			SeenAt:   now,
			Backends: map[string]fleet.Room{"local": {Slots: 8, Used: 3}, "docker": {Slots: 5, Used: 5}},
		},
	}, now)
	require.Regexp(t, `one +running +3/8 `, out.String())
	require.Regexp(t, `two +running +docker 5/5, local 3/8 `, out.String())
}
