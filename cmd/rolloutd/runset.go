package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// setFlags are the flags of run that only a set of tasks takes.
var setFlags = []string{"task", "exclude", "shuffle", "shard", "limit", "concurrency"}

// refuseFlags refuses flags that mean nothing for what is run.
func refuseFlags(cmd *cobra.Command, what string, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s does not go with %s", name, what)
		}
	}
	return nil
}

// runSet runs one rollout of each task of a set and prints their rewards.
func (f *runFlags) runSet(cmd *cobra.Command, s std, c *client.Client, path string) error {
	if err := refuseFlags(cmd, "a set of tasks", "rollout-id", "detach", "group-size"); err != nil {
		return err
	}
	if f.concurrency < 1 {
		return fmt.Errorf("--concurrency: want at least 1, got %d", f.concurrency)
	}
	tasks, err := f.readSet(path)
	if err != nil {
		return err
	}
	ctx, cancel := f.waitContext(cmd.Context())
	defer cancel()
	arguments := func(t taskset.Task) (map[string]any, error) { return f.apply(t.Arguments(), s) }
	results, err := cli.RunTasks(ctx, c, tasks, f.concurrency, arguments, func(r cli.TaskResult) {
		if f.json && r.Err == nil {
			_ = json.NewEncoder(s.out).Encode(r.Result) // a closed pipe ends the command by its signal
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
	if code := cli.SetExitCode(results); code != cli.ExitOK {
		return exitError(code)
	}
	return nil
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
	tasks := make([]taskset.Task, 0, len(chosen))
	for _, i := range chosen {
		t, err := set.Task(i)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}
