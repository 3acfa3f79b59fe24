package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// regradePage is the size of a page of rollouts.
const regradePage = 1000

// regradeFlags are the flags of regrade.
type regradeFlags struct {
	settings
	tasks   selectFlags
	grading gradingFlags

	// only rollouts of this group; "": of any
	group string

	apply, json bool
	concurrency int
}

func regradeCommand(s std) *cobra.Command {
	f := regradeFlags{settings: settings{s: s}}

	cmd := &cobra.Command{
		Use:     "regrade SET [ROLLOUT...]",
		Short:   "Grade the saved work of finished rollouts again, by the verifiers of a set as they are now",
		GroupID: groupRollouts,
		Args:    cli.OneOrMore("SET"),
		Long: aboutSets + "\n\nRegrade grades the rollouts that it is given, or all finished rollouts of the tasks, without a model. The new grade\n" +
			"stands beside the first one; --apply makes it the rollout's, and the statistics of its group follow. No group is\n" +
			"delivered again. It exits with 1 if a rollout could not be graded.",
		Example: "  rolloutd regrade tasks/ --task parser\n  rolloutd regrade task.yaml 0198c0de-1 --apply",
	}
	f.register(cmd)
	f.tasks.register(cmd)
	f.grading.register(cmd.Flags())
	cmd.Flags().StringVar(&f.group, "group", "", "only rollouts of this group id")
	cmd.Flags().BoolVar(&f.apply, "apply", false, "make the new grades those of the rollouts")
	cmd.Flags().IntVar(&f.concurrency, "concurrency", 16, "regrades at once; those that no host has room for wait")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON lines")
	connect := serverFlag(cmd, s)
	resolveGroup := groupFlag(cmd, connect, &f.group)
	cmd.ValidArgsFunction = completeRegrade(connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.concurrency < 1 {
			return fmt.Errorf("--concurrency: must be at least 1, got %d", f.concurrency)
		}

		tasks, err := f.tasksOf(args[0], f.tasks)
		if err != nil {
			return err
		}

		c := connect()
		if err := resolveGroup(cmd.Context()); err != nil {
			return hint(err, c)
		}

		jobs, err := f.jobs(cmd.Context(), c, tasks, args[1:])
		if err != nil {
			return hint(err, c)
		}

		if err := prepareTasks(cmd.Context(), s, c, tasks); err != nil {
			return hint(err, c)
		}

		return f.regrade(cmd.Context(), c, jobs)
	}

	return cmd
}

// regrade grades the rollouts again and prints how.
func (f *regradeFlags) regrade(ctx context.Context, c *client.Client, jobs []cli.RegradeJob) error {
	var all []cli.Regraded

	err := cli.Regrade(ctx, c, jobs, f.concurrency, f.apply, func(r cli.Regraded) {
		all = append(all, r)

		if f.json {
			// a closed pipe ends the command by its signal
			_ = r.WriteJSON(f.s.out)
		}

		cli.RegradeLine(f.s.err, r)
	})
	if err != nil {
		return hint(err, c)
	}

	if !f.json {
		cli.RegradeTable(f.s.out, all, f.apply)
	}

	for _, r := range all {
		if !r.Graded() {
			return exitError(cli.ExitError)
		}
	}

	return nil
}

// tasksOf reads the selected tasks of a set. A broken one is an error.
func (f *settings) tasksOf(name string, sel selectFlags) ([]taskset.Task, error) {
	set, chosen, _, err := f.openSet(name, sel)
	if err != nil {
		return nil, err
	}
	defer set.Close()

	return set.Tasks(chosen)
}

// prepareTasks gives the server what the tasks need: images that are built here, and files.
func prepareTasks(ctx context.Context, s std, c *client.Client, tasks []taskset.Task) error {
	if err := buildImages(ctx, s, c, tasks); err != nil {
		return err
	}

	for _, t := range tasks {
		if err := c.UploadAll(ctx, t.Local); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}

	return nil
}

// jobs pairs rollouts with their tasks: those with the ids, or all finished ones of the tasks.
func (f *regradeFlags) jobs(
	ctx context.Context,
	c *client.Client,
	tasks []taskset.Task,
	ids []string,
) ([]cli.RegradeJob, error) {
	if len(ids) == 0 {
		return f.finishedJobs(ctx, c, tasks)
	}

	if f.group != "" {
		return nil, errors.New("--group does not go with ids of rollouts")
	}

	var jobs []cli.RegradeJob

	for _, begin := range ids {
		if err := rollout.CheckID(begin); err != nil {
			return nil, err
		}

		id, err := c.Resolve(ctx, begin)
		if err != nil {
			return nil, err
		}

		t, err := taskOfRollout(ctx, c, tasks, id)
		if err != nil {
			return nil, err
		}

		jobs = append(jobs, cli.RegradeJob{RolloutID: id, Task: t, Changes: f.grading.changes()})
	}

	return jobs, nil
}

func (f *regradeFlags) finishedJobs(
	ctx context.Context,
	c *client.Client,
	tasks []taskset.Task,
) ([]cli.RegradeJob, error) {
	var jobs []cli.RegradeJob

	for _, t := range tasks {
		filter := rollout.Filter{Status: rollout.StatusDone, TaskID: t.ID, GroupID: f.group, Limit: regradePage}

		for more := true; more; more = filter.Cursor != "" {
			page, err := c.List(ctx, filter)
			if err != nil {
				return nil, err
			}

			for _, r := range page.Rollouts {
				// others have left no work that a verifier can grade
				if r.Outcome.MayCarryReward() || r.Outcome == rollout.VerifierFailed {
					jobs = append(jobs, cli.RegradeJob{RolloutID: r.ID, Task: t, Changes: f.grading.changes()})
				}
			}

			filter.Cursor = page.Next
		}
	}

	return jobs, nil
}

// taskOfRollout is the task of a rollout: the only one, or that with its task id.
func taskOfRollout(ctx context.Context, c *client.Client, tasks []taskset.Task, id string) (taskset.Task, error) {
	if len(tasks) == 1 {
		return tasks[0], nil
	}

	st, err := c.State(ctx, id)
	if err == nil && st.Unknown() {
		err = noRollout(ctx, c, id)
	}

	if err != nil {
		return taskset.Task{}, err
	}

	for _, t := range tasks {
		if t.ID == st.TaskID {
			return t, nil
		}
	}

	return taskset.Task{}, fmt.Errorf("rollout %s is of the task %q, which is not among those of the set", id, st.TaskID)
}
