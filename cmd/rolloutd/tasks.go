package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
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

func tasksCommand(s std) *cobra.Command {
	cmd := &cobra.Command{Use: "tasks", Short: "List and check the tasks of a set", GroupID: groupRollouts}
	cmd.AddCommand(tasksLsCommand(s), tasksCheckCommand(s), tasksBuildCommand(s))

	return cmd
}

const aboutSets = "A set is a folder of task files or Harbor tasks, a file of JSON lines, one task file, or the name of a set in the\nconfiguration (task_sets)."

func tasksLsCommand(s std) *cobra.Command {
	f := settings{s: s}

	var sel selectFlags

	asJSON := false
	cmd := &cobra.Command{
		Use:   "ls SET",
		Short: "List the tasks of a set, with their digests",
		Long:  aboutSets,
		Args:  cli.Arguments("SET"),
	}
	f.register(cmd)
	sel.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		set, chosen, _, err := f.openSet(args[0], sel)
		if err != nil {
			return err
		}
		defer set.Close()

		for _, i := range chosen {
			if err := listTask(s.out, set, i, asJSON); err != nil {
				return err
			}
		}

		return nil
	}

	return cmd
}

// listTask writes a line about a task; for a broken one, its error.
func listTask(w io.Writer, set *taskset.Set, i int, asJSON bool) error {
	line := struct {
		Name        string `json:"name"`
		Digest      string `json:"digest,omitempty"`
		Source      string `json:"source"`
		Instruction string `json:"instruction,omitempty"`
		Error       string `json:"error,omitempty"`
	}{Name: set.Name(i), Source: set.Source(i)}

	t, err := set.Task(i)
	if err == nil {
		line.Instruction = t.Instruction
		line.Digest, err = t.Digest()
	}

	if err != nil {
		line.Error = err.Error()
	}

	if asJSON {
		return json.NewEncoder(w).Encode(line)
	}

	first, _, _ := strings.Cut(strings.TrimSpace(line.Instruction), "\n")
	if line.Error != "" {
		first = "broken: " + line.Error
	}

	_, err = fmt.Fprintf(w, "%-28s %-12.12s %.100s\n", line.Name, line.Digest, first)

	return err
}

func tasksCheckCommand(s std) *cobra.Command {
	f := settings{s: s}

	var (
		sel         selectFlags
		oracle, nop bool
		grade       string
	)

	concurrency := 4
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
	sel.register(cmd)
	cmd.Flags().BoolVar(&oracle, "oracle", false, "run the solution of each task: it must earn the full reward")
	cmd.Flags().
		BoolVar(&nop, "nop", false, "run each task with an agent that does nothing: it must not earn the full reward")
	cmd.Flags().StringVar(&grade, "grade", "", "verifier.grade instead of the tasks': fresh, live or shared; see rolloutd run")
	cmd.Flags().IntVar(&concurrency, "concurrency", concurrency, "rollouts at once")
	connect := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case concurrency < 1:
			return fmt.Errorf("--concurrency: must be at least 1, got %d", concurrency)
		case grade != "" && !slices.Contains(rollout.Grades(), grade):
			return fmt.Errorf("--grade: must be %s, got %q", strings.Join(rollout.Grades(), ", "), grade)
		}

		set, chosen, cfg, err := f.openSet(args[0], sel)
		if err != nil {
			return err
		}
		defer set.Close()

		check, err := taskCheck(cfg)
		if err != nil {
			return err
		}

		sound, broken := checkTasks(s.out, set, chosen, check)
		c := connect()
		problems := map[string]string{}

		if (oracle || nop) && onThisMachine(c) {
			b := taskImages{s: s, settings: f, cfg: cfg}
			sound = slices.DeleteFunc(sound, func(t taskset.Task) bool {
				err := b.build(cmd.Context(), t)
				if err != nil {
					broken++

					fmt.Fprintf(s.out, "broken  %-28s %v\n", t.Name, err)
				}

				return err != nil
			})
		}

		for _, trial := range trials(oracle, nop, grade) {
			found, err := trial.run(cmd.Context(), c, sound, concurrency)
			if err != nil {
				return hint(err, c)
			}

			for _, p := range found {
				problems[p.task.Name] = cmp.Or(problems[p.task.Name], p.why)

				fmt.Fprintf(s.out, "broken  %-28s %s: %s\n", p.task.Name, p.task.Source, p.why)
			}

			broken += len(found)
		}

		if oracle && nop {
			if err := keepChecks(setPath(cfg, args[0]), sound, grade, problems); err != nil {
				fmt.Fprintln(s.err, "the checks are not kept beside the set:", err)
			}
		}

		fmt.Fprintf(s.out, "tasks: %d, problems: %d\n", len(chosen), broken)

		if broken > 0 {
			return exitError(cli.ExitError)
		}

		return nil
	}

	return cmd
}

// keepChecks writes what was found of the tasks, graded like that, beside their set.
func keepChecks(path string, tasks []taskset.Task, grade string, problems map[string]string) error {
	checks := taskset.Checks{}

	for _, t := range tasks {
		digest, err := t.Digest()
		if err != nil {
			return err
		}

		checks[digest] = taskset.Check{
			Name:    t.Name,
			At:      time.Now().UTC(),
			Grade:   cmp.Or(grade, taskset.GradeOf(t.Arguments())),
			Problem: problems[t.Name],
		}
	}

	return checks.Write(path)
}

// trial is a check that runs each task with an agent that needs no model.
type trial struct {
	agent string
	judge func(cli.TaskResult) string

	// verifier.grade; "": as each task says
	grade string
}

func trials(oracle, nop bool, grade string) []trial {
	var all []trial
	if oracle {
		all = append(all, trial{rollout.AgentOracle, cli.TaskResult.OracleProblem, grade})
	}

	if nop {
		all = append(all, trial{rollout.AgentNop, cli.TaskResult.NopProblem, grade})
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

		if t.agent == rollout.AgentOracle && t.judge(r) != "" && r.NeedsMore(t.grade) {
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
		other := trial{agent: t.agent, grade: grade}

		results, err := cli.RunTasks(ctx, c, tasks, concurrency, other.arguments, func(cli.TaskResult) {})
		if err != nil {
			return nil, err
		}

		tasks = nil

		for _, r := range results {
			if t.judge(r) == "" {
				found[keyOf(r.Task)] = grade
			} else {
				tasks = append(tasks, r.Task)
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

	if t.grade != "" {
		cli.Grade(args, t.grade)
	}

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

// selectFlags choose tasks of a set.
type selectFlags struct {
	tasks, exclude []string
	shuffle, shard string
	limit          int
}

func (f *selectFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.tasks, "task", nil, "names or globs of tasks (default: all)")
	fl.StringSliceVar(&f.exclude, "exclude", nil, "names or globs of tasks that are left out")
	fl.StringVar(&f.shuffle, "shuffle", "", "seed of a random order (default: the order of the set)")
	fl.StringVar(&f.shard, "shard", "", "part i/n of the tasks, from 0/n")
	fl.IntVar(&f.limit, "limit", 0, "tasks at most (default: all)")
}

func (f *selectFlags) selection() (taskset.Selection, error) {
	sel := taskset.Selection{Tasks: f.tasks, Exclude: f.exclude, Limit: f.limit}
	if f.shuffle != "" {
		seed, err := strconv.ParseUint(f.shuffle, 10, 64)
		if err != nil {
			return sel, fmt.Errorf("--shuffle: must be a whole number of at least 0, got %q", f.shuffle)
		}

		sel.Shuffle = &seed
	}

	if f.shard != "" {
		if n, err := fmt.Sscanf(f.shard, "%d/%d", &sel.Shard, &sel.Shards); err != nil || n != 2 || sel.Shards < 1 {
			return sel, fmt.Errorf("--shard: must be i/n with 0 ≤ i < n, got %q", f.shard)
		}
	}

	return sel, sel.Validate()
}

// openSet opens the set of a name or a path and selects tasks of it.
func (f *settings) openSet(name string, flags selectFlags) (*taskset.Set, []int, config.Config, error) {
	cfg, err := f.load(nil)
	if err != nil {
		return nil, nil, cfg, err
	}

	sel, err := flags.selection()
	if err != nil {
		return nil, nil, cfg, err
	}

	set, err := taskset.Open(setPath(cfg, name))
	if err != nil {
		return nil, nil, cfg, err
	}

	chosen, err := set.Select(sel)
	if err != nil {
		return nil, nil, cfg, errors.Join(err, set.Close())
	}

	return set, chosen, cfg, nil
}

// setPath is the path of a configured set; any other name is a path.
func setPath(cfg config.Config, name string) string {
	if named, ok := cfg.TaskSets[name]; ok {
		return named.Path
	}

	return name
}

// isSet says whether a path is a set of tasks rather than one task file.
func isSet(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir() || strings.HasSuffix(path, ".jsonl") || strings.HasSuffix(path, ".ndjson")
}

// isTaskFile says whether a path is a task file.
func isTaskFile(path string) bool {
	return strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml")
}
