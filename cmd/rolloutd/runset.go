package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// selectionFlags are the flags of run that apply to a single set of tasks only.
var selectionFlags = []string{"task", "exclude", "shuffle", "shard", "limit"}

// setFlags are the flags of run that apply to several tasks only.
var setFlags = append([]string{"concurrency", "min-reward", "resume"}, selectionFlags...)

// refuseFlags refuses flags that do not apply to the argument what.
func refuseFlags(cmd *cobra.Command, what string, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s does not go with %s", name, what)
		}
	}

	return nil
}

// runSet runs one rollout of each task of sets and files, or a group, and prints their rewards.
func (f *runFlags) runSet(cmd *cobra.Command, s std, c *client.Client, paths []string) error {
	if err := refuseFlags(cmd, "several tasks", "rollout-id"); err != nil {
		return err
	}

	if f.concurrency < 1 {
		return fmt.Errorf("--concurrency: must be at least 1, got %d", f.concurrency)
	}

	tasks, err := f.readSets(cmd, paths)
	if err != nil {
		return err
	}

	if err := buildImages(cmd.Context(), s, c, tasks); err != nil {
		return err
	}

	run := cli.NamedRun{Server: c, Name: f.resume, GroupSize: f.groupSize}
	if f.resume != "" {
		if err := run.Check(tasks); err != nil {
			return err
		}
	}

	if f.detach {
		return hint(f.submitAll(cmd, s, run, tasks), c)
	}

	ctx, cancel := f.waitContext(cmd.Context())
	defer cancel()

	arguments := func(t taskset.Task) (map[string]any, error) { return f.argumentsOf(ctx, s, run, t) }

	results, err := cli.RunTasks(ctx, c, tasks, f.concurrency, arguments, func(r cli.TaskResult) {
		if f.json {
			// a closed pipe ends the command by its signal
			_ = r.WriteJSON(s.out)
		}

		cli.TaskLine(s.err, r)
	})
	if err = waitError(hint(err, c)); err != nil {
		return err
	}

	if !f.json {
		fmt.Fprintln(s.out)
		cli.SetTable(s.out, results)
	}

	if cmd.Flags().Changed("min-reward") {
		return cli.BelowReward(results, f.minReward)
	}

	if code := cli.SetExitCode(results); code != cli.ExitOK {
		return exitError(code)
	}

	return nil
}

// argumentsOf returns the arguments of a task's rollout or group, with its id if the run has a name.
func (f *runFlags) argumentsOf(
	ctx context.Context, s std, run cli.NamedRun, t taskset.Task,
) (map[string]any, error) {
	arguments, err := f.apply(t.Arguments(), s)
	if err == nil && run.Name != "" {
		err = run.Identify(ctx, t, arguments)
	}

	return arguments, err
}

// submitAll starts a rollout or a group of each task and prints their ids, in the order of the tasks.
func (f *runFlags) submitAll(cmd *cobra.Command, s std, run cli.NamedRun, tasks []taskset.Task) error {
	c := run.Server

	for _, t := range tasks {
		arguments, err := f.argumentsOf(cmd.Context(), s, run, t)
		if err == nil {
			err = c.UploadAll(cmd.Context(), t.Local)
		}

		if err == nil {
			err = f.submit(cmd.Context(), s.out, c, arguments)
		}

		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}

	return nil
}

// readSets reads the tasks of all paths, in their order.
func (f *runFlags) readSets(cmd *cobra.Command, paths []string) ([]taskset.Task, error) {
	if len(paths) > 1 {
		if err := refuseFlags(cmd, "several files", selectionFlags...); err != nil {
			return nil, err
		}
	}

	var tasks []taskset.Task

	for _, path := range paths {
		more, err := f.readSet(path)
		if err != nil {
			return nil, err
		}

		tasks = append(tasks, more...)
	}

	return tasks, nil
}

// readSet reads the selected tasks of a set. A broken one is an error: nothing runs.
func (f *runFlags) readSet(path string) ([]taskset.Task, error) {
	sel, err := f.tasks.selection()
	if err != nil {
		return nil, err
	}

	set, err := taskset.Open(path)
	if err != nil {
		return nil, err
	}
	defer set.Close()

	chosen, err := set.Select(sel)
	if err != nil {
		return nil, err
	}

	return set.Tasks(chosen)
}
