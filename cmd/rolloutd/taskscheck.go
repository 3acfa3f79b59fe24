package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// checkFlags are the flags of tasks check.
type checkFlags struct {
	settings    settings
	sel         selectFlags
	oracle, nop bool
	grading     gradingFlags
	concurrency int
}

func tasksCheckCommand(s std) *cobra.Command {
	f := checkFlags{settings: settings{s: s}}
	cmd := &cobra.Command{
		Use:   "check SET",
		Short: "Check each task of a set; with a server, that it can be solved and is not free",
		Args:  cli.Arguments("SET"),
		Long: aboutSets + "\n\nCheck names each broken task with its file and field, and exits with 1 if there is one. With --oracle and\n" +
			"--nop it writes what it found beside the set, in rolloutd-checks.json of a folder or FILE.checks.json. Each runs\n" +
			"twice: a task whose reward differs is flaky.",
		Example: "  rolloutd tasks check examples/small\n  rolloutd tasks check examples/small --oracle --nop",
	}
	f.register(cmd)
	connect := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.validate(); err != nil {
			return err
		}

		return f.check(cmd.Context(), s, connect(), args[0])
	}

	return cmd
}

func (f *checkFlags) register(cmd *cobra.Command) {
	f.settings.register(cmd)
	f.sel.register(cmd)

	fl := cmd.Flags()
	fl.BoolVar(&f.oracle, "oracle", false, "run the solution of each task: it must earn the full reward")
	fl.BoolVar(&f.nop, "nop", false, "run each task with an agent that does nothing: it must not earn the full reward")
	f.grading.register(fl)
	f.grading.registerNetwork(fl)
	fl.IntVar(&f.concurrency, "concurrency", 4, "rollouts at once")
}

func (f *checkFlags) validate() error {
	if f.concurrency < 1 {
		return fmt.Errorf("--concurrency: must be at least 1, got %d", f.concurrency)
	}

	return f.grading.validate()
}

// check checks the tasks of a set, by a server too if a trial is asked for, and names those with a problem.
func (f *checkFlags) check(ctx context.Context, s std, c *client.Client, name string) error {
	set, chosen, cfg, err := f.settings.openSet(name, f.sel)
	if err != nil {
		return err
	}
	defer set.Close()

	check, err := taskCheck(cfg)
	if err != nil {
		return err
	}

	sound, broken := checkTasks(s.out, set, chosen, check)
	f.noteGrades(s.out, sound)

	if (f.oracle || f.nop) && onThisMachine(c) {
		before := len(sound)
		images := taskImages{s: s, settings: f.settings, cfg: cfg}
		sound = images.buildAll(ctx, sound)
		broken += before - len(sound)
	}

	problems, err := f.try(ctx, s.out, c, sound)
	if err != nil {
		return hint(err, c)
	}

	broken += len(problems)

	if f.oracle && f.nop {
		if err := keepChecks(setPath(cfg, name), sound, f.grading, problems); err != nil {
			fmt.Fprintln(s.err, "the checks are not kept beside the set:", err)
		}
	}

	fmt.Fprintf(s.out, "tasks: %d, problems: %d\n", len(chosen), broken)

	if broken > 0 {
		return exitError(cli.ExitError)
	}

	return nil
}

// noteGrades names the tasks that cannot be graded as --grade says.
func (f *checkFlags) noteGrades(w io.Writer, tasks []taskset.Task) {
	for _, t := range tasks {
		if grade := f.grading.gradeOf(t); f.grading.grade != "" && grade != f.grading.grade {
			fmt.Fprintf(w, "note    %-28s %s: --grade %s has no effect on a task with steps or verifier.image: it is graded %s\n",
				t.Name, t.Source, f.grading.grade, grade)
		}
	}
}

// try runs the trials of the tasks on a server, and prints and returns the problems that they find.
func (f *checkFlags) try(ctx context.Context, w io.Writer, c *client.Client, tasks []taskset.Task) ([]problem, error) {
	var problems []problem

	for _, trial := range trials(f.oracle, f.nop, f.grading) {
		found, err := trial.run(ctx, c, tasks, f.concurrency)
		if err != nil {
			return nil, err
		}

		for _, p := range found {
			fmt.Fprintf(w, "broken  %-28s %s: %s\n", p.task.Name, p.task.Source, p.why)
		}

		problems = append(problems, found...)
	}

	return problems, nil
}

// keepChecks writes what was found of the tasks, graded like that, beside their set.
func keepChecks(path string, tasks []taskset.Task, by gradingFlags, problems []problem) error {
	first := map[string]string{}
	for _, p := range problems {
		first[p.task.Name] = cmp.Or(first[p.task.Name], p.why)
	}

	checks := taskset.Checks{}

	for _, t := range tasks {
		digest, err := t.Digest()
		if err != nil {
			return err
		}

		checks[digest] = taskset.Check{
			Name:      t.Name,
			At:        time.Now().UTC(),
			Grade:     by.gradeOf(t),
			RewardKey: by.rewardKey,
			Network:   by.network,
			Problem:   first[t.Name],
		}
	}

	return checks.Write(path)
}

// trial is a check that runs each task with an agent that needs no model.
type trial struct {
	agent string
	judge func(cli.TaskResult) string

	grading gradingFlags
}

func trials(oracle, nop bool, by gradingFlags) []trial {
	var all []trial
	if oracle {
		all = append(all, trial{rollout.AgentOracle, cli.TaskResult.OracleProblem, by})
	}

	if nop {
		all = append(all, trial{rollout.AgentNop, cli.TaskResult.NopProblem, by})
	}

	return all
}

// problem is what is wrong with a task.
type problem struct {
	task taskset.Task
	why  string
}

// run runs a trial of each task twice and returns those with a problem. Where a solution does not earn the full reward,
// it runs again with other ways of grading, so that the problem can say which the task needs.
func (t trial) run(
	ctx context.Context,
	c *client.Client,
	tasks []taskset.Task,
	concurrency int,
) ([]problem, error) {
	first, err := cli.RunTasks(ctx, c, tasks, concurrency, t.arguments, func(cli.TaskResult) {})
	if err != nil {
		return nil, err
	}

	var graded, unsolved []taskset.Task

	for _, r := range first {
		if r.Err == nil && r.Result.Outcome == rollout.Completed {
			graded = append(graded, r.Task)
		}

		if t.agent == rollout.AgentOracle && t.judge(r) != "" && t.grading.gradeOf(r.Task) == rollout.GradeFresh && r.NeedsMore() {
			unsolved = append(unsolved, r.Task)
		}
	}

	again, err := cli.RunTasks(ctx, c, graded, concurrency, t.arguments, func(cli.TaskResult) {})
	if err != nil {
		return nil, err
	}

	only, err := t.findGrades(ctx, c, unsolved, concurrency)
	if err != nil {
		return nil, err
	}

	second := resultsByTask(again)

	var problems []problem

	for _, r := range first {
		why, flaky := t.judge(r), ""

		if s, ok := second[keyOf(r.Task)]; ok {
			flaky = r.FlakyProblem(t.agent, s)
		}

		if grade := only[keyOf(r.Task)]; grade != "" {
			why = cli.OnlyWith(grade) + why
		}

		why = cmp.Or(flaky, why)

		if why != "" {
			problems = append(problems, problem{r.Task, why})
		}
	}

	return problems, nil
}

// findGrades returns for tasks the value of verifier.grade with which their solution earns the full reward. Live comes
// first: it gives up less.
func (t trial) findGrades(
	ctx context.Context,
	c *client.Client,
	tasks []taskset.Task,
	concurrency int,
) (map[taskKey]string, error) {
	found := map[taskKey]string{}

	for _, grade := range []string{rollout.GradeLive, rollout.GradeShared} {
		other := trial{agent: t.agent, grading: t.grading}
		other.grading.grade = grade

		apt := slices.DeleteFunc(slices.Clone(tasks), func(t taskset.Task) bool {
			return found[keyOf(t)] != "" || other.grading.gradeOf(t) != grade
		})

		results, err := cli.RunTasks(ctx, c, apt, concurrency, other.arguments, func(cli.TaskResult) {})
		if err != nil {
			return nil, err
		}

		for _, r := range results {
			if t.judge(r) == "" {
				found[keyOf(r.Task)] = grade
			}
		}
	}

	return found, nil
}

// taskKey identifies a task of a set.
type taskKey struct{ source, name string }

func keyOf(t taskset.Task) taskKey { return taskKey{t.Source, t.Name} }

func resultsByTask(all []cli.TaskResult) map[taskKey]cli.TaskResult {
	byTask := map[taskKey]cli.TaskResult{}
	for _, r := range all {
		byTask[keyOf(r.Task)] = r
	}

	return byTask
}

func (t trial) arguments(task taskset.Task) (map[string]any, error) {
	args := task.Arguments()
	args["agent"] = t.agent
	delete(args, "react")

	if t.agent == rollout.AgentOracle && !task.HasSolution() {
		return nil, errors.New("the task has no solution")
	}

	taskset.Change(args, t.grading.changes())

	return args, nil
}

// taskCheck checks tasks by the agents and backends of the configuration.
func taskCheck(c config.Config) (envserver.TaskCheck, error) {
	agents, err := daemon.Agents(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return envserver.TaskCheck{}, err
	}

	return envserver.NewTaskCheck(agents.Names(), c.Sandbox.BackendNames())
}

// checkTasks reads and checks tasks, names the broken ones and returns the others.
func checkTasks(
	w io.Writer,
	set *taskset.Set,
	chosen []int,
	check envserver.TaskCheck,
) (sound []taskset.Task, broken int) {
	for _, i := range chosen {
		t, err := set.Task(i)
		for _, note := range t.Notes {
			fmt.Fprintf(w, "note    %-28s %s: %s\n", set.Name(i), t.Source, note)
		}

		if err == nil {
			if err = check.Check(t.Arguments()); err != nil {
				err = fmt.Errorf("%s: %w", t.Source, err)
			}
		}

		if err != nil {
			broken++

			fmt.Fprintf(w, "broken  %-28s %v\n", set.Name(i), err)

			continue
		}

		sound = append(sound, t)
	}

	return sound, broken
}
