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

func regradeCommand(s std) *cobra.Command {
	f := settings{s: s}

	var (
		sel         selectFlags
		grading     gradingFlags
		group       string
		apply, asJS bool
	)

	concurrency := 16
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
	sel.register(cmd)
	grading.register(cmd.Flags())
	cmd.Flags().StringVar(&group, "group", "", "only rollouts of this group id")
	cmd.Flags().BoolVar(&apply, "apply", false, "make the new grades those of the rollouts")
	cmd.Flags().IntVar(&concurrency, "concurrency", concurrency, "regrades at once; those that no host has room for wait")
	cmd.Flags().BoolVar(&asJS, "json", false, "print JSON lines")
	connect := serverFlag(cmd, s)
	resolveGroup := groupFlag(cmd, connect, &group)
	cmd.ValidArgsFunction = completeRegrade(connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if concurrency < 1 {
			return fmt.Errorf("--concurrency: must be at least 1, got %d", concurrency)
		}

		tasks, err := f.tasksOf(args[0], sel)
		if err != nil {
			return err
		}

		c := connect()

		err = resolveGroup(cmd.Context())

		var jobs []cli.RegradeJob
		if err == nil {
			jobs, err = regradeJobs(cmd.Context(), c, tasks, args[1:], group)
		}

		for i := range jobs {
			jobs[i].Changes = grading.changes()
		}

		if err == nil {
			err = prepareTasks(cmd.Context(), s, c, tasks)
		}

		if err != nil {
			return hint(err, c)
		}

		return regrade(cmd.Context(), s, c, jobs, concurrency, apply, asJS)
	}

	return cmd
}

// regrade grades the rollouts again and prints how.
func regrade(ctx context.Context, s std, c *client.Client, jobs []cli.RegradeJob, concurrency int, apply, asJSON bool) error {
	var all []cli.Regraded

	err := cli.Regrade(ctx, c, jobs, concurrency, apply, func(r cli.Regraded) {
		all = append(all, r)

		if asJSON {
			// a closed pipe ends the command by its signal
			_ = r.WriteJSON(s.out)
		}

		cli.RegradeLine(s.err, r)
	})
	if err != nil {
		return hint(err, c)
	}

	if !asJSON {
		cli.RegradeTable(s.out, all, apply)
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

// regradeJobs pairs rollouts with their tasks: those with the ids, or all finished ones of the tasks.
func regradeJobs(ctx context.Context, c *client.Client, tasks []taskset.Task, ids []string, group string) ([]cli.RegradeJob, error) {
	var jobs []cli.RegradeJob

	if len(ids) > 0 && group != "" {
		return nil, errors.New("--group does not go with ids of rollouts")
	}

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

		jobs = append(jobs, cli.RegradeJob{RolloutID: id, Task: t})
	}

	if len(ids) > 0 {
		return jobs, nil
	}

	for _, t := range tasks {
		f := rollout.Filter{Status: rollout.StatusDone, TaskID: t.ID, GroupID: group, Limit: regradePage}

		for more := true; more; more = f.Cursor != "" {
			page, err := c.List(ctx, f)
			if err != nil {
				return nil, err
			}

			for _, r := range page.Rollouts {
				// others have left no work that a verifier can grade
				if r.Outcome.MayCarryReward() || r.Outcome == rollout.VerifierFailed {
					jobs = append(jobs, cli.RegradeJob{RolloutID: r.ID, Task: t})
				}
			}

			f.Cursor = page.Next
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
