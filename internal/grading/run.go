package grading

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
)

const (
	scriptProcess = "verify-script"
	syntaxProcess = "verify-syntax"
	pathProcess   = "verify-path"
	syntaxTimeout = 30 * time.Second

	// characters of the script's output in a Result
	scriptStdout = 4000
	scriptStderr = 2000

	// bytes of each of the script's streams in the store
	keptOutput = 1 << 20
)

// The verifier's files, where the agent's user cannot reach them.
const (
	testScript = wire.VerifierTests + "/test.sh"

	// names in wire.VerifierLogs or, in shared mode, sharedLogs
	rewardFile = "reward.txt"

	// several rewards by name; it takes precedence, as in Harbor
	rewardsFile = "reward.json"

	// rewards of single turns
	turnRewardsFile = "turn_rewards.json"
)

// asVerifier is bash with these arguments as the verifier's user.
//
// Of what a repository may set in git's configuration, these variables override the entries that make
// reading commands run a program, and the check of the owner, which is the agent's user. The verifier's own
// HOME has no settings of the agent. Its R reads none of the current folder.
func asVerifier(args ...string) wire.Process {
	p := sandbox.BashCommand(args...)
	p.User, p.Dispatch = wire.VerifierUser, true
	maps.Copy(p.Env, map[string]string{
		"TESTS_DIR": wire.VerifierTests, "VERIFIER_DIR": wire.VerifierLogs,
		"PYTHONSAFEPATH":   "1", // a module of the workdir must not take the place of one that the verifier imports
		"GIT_CONFIG_COUNT": "3", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
		"GIT_CONFIG_KEY_1": "core.fsmonitor", "GIT_CONFIG_VALUE_1": "false",
		"GIT_CONFIG_KEY_2": "core.hooksPath", "GIT_CONFIG_VALUE_2": "/dev/null",
		"R_PROFILE_USER": wire.VerifierHome + "/.Rprofile", "R_ENVIRON_USER": wire.VerifierHome + "/.Renviron",
	})

	return p
}

// noOptions keeps file names that begin with "-" out of what bash makes of a pattern: in "sort *" such a
// name is an option, and some options run programs (sed -e, sort --compress-program), as the verifier.
// Setting GLOBIGNORE also makes patterns match hidden files, which is undone.
const noOptions = `GLOBIGNORE='-*'; shopt -u dotglob; `

// asScript is bash with the test script, whose names are as if bash had been given the file.
func asScript() wire.Process {
	p := asVerifier("-c", noOptions+plainValues+dispatcher+`. "$0"`, testScript)
	p.Env[runas.InlineCode] = runas.InlineByVerifier

	return p
}

// fromStdin runs the text on its stdin as bash -c does. The text is in no command line and in no file, so
// programs of the agent that it runs cannot read there what they are compared with.
const fromStdin = noOptions + plainValues + `IFS= read -r -d '' __text; exec < /dev/null; eval "$__text"`

// asCommand is bash with a verify command.
func asCommand(command string) wire.Process {
	args := commandArgs(command)
	// all of it runs as the agent
	if len(args) > 2 {
		return asVerifier(args...)
	}

	p := asVerifier("-c", fromStdin)

	p.Stdin = []byte(args[1])
	if decidesItself(command) {
		p.Env[runas.InlineCode] = runas.InlineByVerifier
	}

	return p
}

func commandProcess(i int) string { return fmt.Sprintf("verify-%d", i+1) }

// firstProcess is the name of the verifier's first process. Its start means that grading has begun.
func firstProcess(v rollout.Verifier) string {
	if v.Script != "" {
		return scriptProcess
	}

	return commandProcess(0)
}

// run runs the script, then every command, kills what they left, and reads the reward.
func (g *Grader) run(ctx context.Context, sb *sandbox.Sandbox, job Job, record *Record) error {
	err := g.runAll(ctx, sb, job, record)

	noteCauses(ctx, sb, record)

	if err != nil {
		return err
	}
	// nothing may write the reward file while it is read
	if err := sb.KillAll(ctx); err != nil {
		return blame(err, "end what the verifier left running")
	}

	if err = g.readReward(ctx, sb, job, record); err != nil || record.Script == nil || record.Reward == nil || job.Verifier.Shared() {
		return err
	}

	if least, _ := job.Verifier.Expected(); *record.Reward <= least && len(record.Commands) == 0 {
		record.lacksRunner, err = mayLackRunner(ctx, sb, record)
	}

	return err
}

func (g *Grader) runAll(ctx context.Context, sb *sandbox.Sandbox, job Job, record *Record) error {
	budget := &sandbox.CommandBudget{Total: job.Timeout}
	if job.Verifier.Script != "" {
		if err := g.runScript(ctx, sb, job, record, budget); err != nil {
			return err
		}
	}

	return g.runCommands(ctx, sb, job, record, budget)
}

func (g *Grader) runScript(
	ctx context.Context,
	sb *sandbox.Sandbox,
	job Job,
	record *Record,
	b *sandbox.CommandBudget,
) error {
	g.report(0, testScript, nil)

	st, err := sandbox.RunCommand(ctx, sb, scriptProcess, job.script(), b)
	if err != nil {
		return job.blameStart(err)
	}

	if err := g.saveScriptOutput(ctx, sb, st, job.Target, record); err != nil {
		return err
	}

	res, err := sandbox.CommandResult(ctx, sb, testScript, st)
	record.Script = &res
	g.report(0, testScript, &res)

	if err != nil || !st.TimedOut {
		return err
	}

	return timedOut(job, "the test script")
}

// report reports the start of a command or, with a result, its end.
func (g *Grader) report(number int, cmd string, res *rollout.CommandResult) {
	if g.Command != nil {
		g.Command(number, cmd, res)
	}
}

// timedOut is the failure of a verifier that reached its time limit.
func timedOut(job Job, what string) error {
	if job.Verifier.OnTimeout == rollout.TimeoutNull {
		return verifierFailed("%s did not end within the verifier's %s", what, job.Timeout)
	}

	return submissionFailed("%s did not end within the verifier's %s", what, job.Timeout)
}

// runCommands runs every command. A command that exceeds the time has failed.
func (g *Grader) runCommands(
	ctx context.Context,
	sb *sandbox.Sandbox,
	job Job,
	record *Record,
	b *sandbox.CommandBudget,
) error {
	for i, cmd := range job.Verifier.Commands {
		g.report(i+1, cmd, nil)

		st, err := runCommand(ctx, sb, i, job.command(cmd), b)
		if err != nil {
			return err
		}

		res, err := sandbox.CommandResult(ctx, sb, cmd, st)
		if err != nil {
			return err
		}

		record.Commands = append(record.Commands, res)
		g.report(i+1, cmd, &res)

		if !st.TimedOut {
			continue
		}

		what := fmt.Sprintf("verify command %d (%s)", i+1, text.HeadUTF8(cmd, 120))
		if job.Verifier.OnTimeout == rollout.TimeoutNull {
			return timedOut(job, what)
		}

		if record.Grading.Why == "" {
			record.Grading.Why = fmt.Sprintf("%s did not end within the verifier's %s", what, job.Timeout)
		}
	}

	return nil
}

// runCommand runs one command. Work that earlier commands ran may keep it from starting: by using up all
// processes, or by removing the workdir. It is then started again without those processes, in a new
// workdir, within the verifier's time. After a broken connection the command may be running, so the
// activity is retried.
func runCommand(
	ctx context.Context,
	sb *sandbox.Sandbox,
	i int,
	p wire.Process,
	b *sandbox.CommandBudget,
) (wire.Status, error) {
	began := time.Now()

	st, err := sandbox.RunCommand(ctx, sb, commandProcess(i), p, b)
	if err == nil || fault.Is(err, fault.SandboxLost) || fault.Is(err, fault.Unavailable) {
		return st, err
	}

	if err := sb.KillAll(ctx); err != nil {
		return st, blame(err, "end what the verifier left running")
	}

	b.Spend(time.Since(began))

	if err := sb.PutTar(ctx, rollout.Home, Folders(rollout.Workdir)); err != nil {
		return st, blame(err, "make the workdir again")
	}

	st, err = sandbox.RunCommand(ctx, sb, commandProcess(i), p, b)

	return st, blame(err, "start a verify command")
}

// readReward sets the record's reward. The reward files count only with a test script, and take precedence
// over commands.
func (g *Grader) readReward(ctx context.Context, sb *sandbox.Sandbox, job Job, record *Record) error {
	if job.Verifier.Script == "" {
		return g.readCommands(ctx, sb, job, record)
	}

	if err := g.readRewardFiles(ctx, sb, job, record); err != nil || record.Reward == nil {
		return err
	}

	turns, err := job.rewardText(ctx, sb, turnRewardsFile, maxTurnRewardsFile)
	if err != nil || strings.TrimSpace(turns) == "" {
		return err
	}

	if record.TurnRewards, err = parseTurnRewards(turns); err != nil {
		record.Reward = nil
		return verifierFailed("%v", err)
	}

	return nil
}

// readRewardFiles sets the reward that the test script wrote.
func (g *Grader) readRewardFiles(ctx context.Context, sb *sandbox.Sandbox, job Job, record *Record) error {
	named, err := job.rewardText(ctx, sb, rewardsFile, maxRewardsFile)
	if err != nil {
		return err
	}

	if strings.TrimSpace(named) != "" {
		all, reward, problem := parseRewards(named, job.Verifier)
		record.Rewards = all

		if problem != "" {
			return verifierFailed("%s", problem)
		}

		record.Reward = &reward

		return nil
	}

	raw, err := job.rewardText(ctx, sb, rewardFile, maxRewardFile)
	if err != nil {
		return err
	}

	if strings.TrimSpace(raw) == "" {
		return g.noReward(ctx, sb, job, record)
	}

	reward, problem := parseReward(raw, job.Verifier)
	if problem != "" {
		return verifierFailed("%s", problem)
	}

	record.Reward = &reward

	return nil
}

// readRewardFile returns the text of a file that the verifier may have written; "": it has not. A file that is too
// large, or is not a regular file, is the verifier's fault where the work cannot write it.
func readRewardFile(ctx context.Context, sb *sandbox.Sandbox, file string, most int64) (string, error) {
	sb = sb.As(wire.VerifierUser)

	raw, err := sb.ReadFile(ctx, file, most)
	switch {
	case err == nil:
		return string(raw), nil
	case fault.Is(err, fault.NotFound):
		return "", nil
	case !fault.Is(err, fault.Invalid):
		return "", blame(err, "read the reward file")
	}

	info, infoErr := sb.Info(ctx)
	if infoErr != nil {
		return "", infoErr
	}

	if info.SeparateUsers {
		return "", verifierFailed("read the reward file: %v", err)
	}

	return "", blame(err, "read the reward file")
}

// noReward handles a script that wrote no reward. If the script succeeded and commands follow, they
// determine the reward. Otherwise the submission has failed, unless bash cannot parse the script, or the
// script ends like that without the agent's work; see checkVerifier.
func (g *Grader) noReward(ctx context.Context, sb *sandbox.Sandbox, job Job, record *Record) error {
	if len(record.Commands) > 0 && record.Script.ExitCode == 0 {
		return g.readCommands(ctx, sb, job, record)
	}

	if job.Verifier.Shared() {
		return submissionFailed("the test script (exit code %d) wrote no reward", record.Script.ExitCode)
	}
	// the script may have been changed
	if err := g.stageFiles(ctx, sb, job.Verifier); err != nil {
		// which they were once, in this sandbox
		return blame(err, "stage the verifier's files again")
	}

	if err := g.parse(ctx, sb, syntaxProcess, "the test script", asVerifier("-n", testScript)); err != nil {
		return err
	}

	return &failure{
		why:    fmt.Sprintf("the test script (exit code %d) wrote no reward", record.Script.ExitCode),
		silent: record.Script.ExitCode != 0,
	}
}

// readCommands sets the share of the commands that passed as the reward. A command that bash cannot parse
// fails whatever the work is, so it is the verifier's fault. Our own parser reads the commands first: bash
// is asked only about those that failed and that it does not know, too.
func (g *Grader) readCommands(ctx context.Context, sb *sandbox.Sandbox, job Job, record *Record) error {
	for i, c := range record.Commands {
		if c.ExitCode == 0 || job.Verifier.Shared() || parses(c.Cmd) {
			continue
		}
		// patterns that a command may allow itself
		check := asVerifier("-O", "extglob", "-n")

		check.Stdin = []byte(c.Cmd)
		if err := g.parse(ctx, sb, fmt.Sprintf("%s-%d", syntaxProcess, i+1), fmt.Sprintf("verify command %d", i+1),
			check); err != nil {
			return err
		}
	}

	share := passed(record.Commands)
	record.Reward = &share

	return nil
}

// parse runs bash's check of a text of the verifier's, and is the verifier's failure if bash cannot parse it.
func (g *Grader) parse(ctx context.Context, sb *sandbox.Sandbox, id, what string, check wire.Process) error {
	// the work may have removed the workdir
	check.Dir = "/"

	st, err := sandbox.RunCommand(ctx, sb, id, check, &sandbox.CommandBudget{Total: syntaxTimeout})
	if err != nil {
		return blameBounds(err, "check "+what)
	}

	res, err := sandbox.CommandResult(ctx, sb, what, st)
	// one that the kernel kills, since files hold the memory, has parsed nothing
	if err == nil && st.ExitCode != 0 && st.Signal == "" && !st.TimedOut {
		return verifierFailed("bash cannot parse %s: %s", what, text.Head(res.Stderr, 300))
	}

	return err
}

// saveScriptOutput keeps the last characters of the script's output in the record and up to keptOutput
// bytes in the store.
func (g *Grader) saveScriptOutput(
	ctx context.Context,
	sb *sandbox.Sandbox,
	st wire.Status,
	t rollout.Target,
	record *Record,
) error {
	for _, s := range []struct {
		stream, name string
		n            int
		into         *string
	}{
		{"stdout", store.VerifierStdout, scriptStdout, &record.Stdout},
		{"stderr", store.VerifierStderr, scriptStderr, &record.Stderr},
	} {
		raw, err := sb.Tail(ctx, st, s.stream, keptOutput)
		if err != nil {
			return err
		}

		*s.into = text.Tail(string(raw), s.n)
		record.lacks = append(record.lacks, lackLines(raw)...)

		if _, err := g.Store.PutBytes(ctx, store.GradeKey(t, s.name), raw); err != nil {
			return err
		}
	}

	return nil
}
