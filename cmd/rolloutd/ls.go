package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func lsCommand(s std) *cobra.Command {
	var (
		f        rollout.Filter
		outcome  string
		min, max float64
		since    time.Duration
	)

	asJSON := false
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List rollouts, running ones first",
		Args:    cli.Arguments(),
		GroupID: groupRollouts,
		Long:    "Ls lists the rollouts in Temporal: running ones, then the others, latest end first. With tokens it shows those\nof the token's owner, and all rollouts to an operator.",
	}
	cmd.Flags().StringVar(&f.Status, "status", "", "running or done (default: both)")
	cmd.Flags().StringVar(&f.Query, "search", "", "only rollouts that have ended and whose transcripts have these words; \"a phrase\" and word* are understood")
	cmd.Flags().StringVar(&f.TaskID, "task", "", "only rollouts of this task id")
	cmd.Flags().StringVar(&f.GroupID, "group", "", "only rollouts of this group id")
	cmd.Flags().StringVar(&outcome, "outcome", "", "only rollouts with this outcome: "+rollout.OutcomeNames())
	cmd.Flags().StringVar(&f.Model, "model", "", "only rollouts of this model")
	cmd.Flags().Float64Var(&min, "min-reward", 0, "only rollouts with at least this reward")
	cmd.Flags().Float64Var(&max, "max-reward", 0, "only rollouts with at most this reward")
	cmd.Flags().DurationVar(&since, "since", 0, "only rollouts that started within this time, such as 2h")
	cmd.Flags().IntVar(&f.Limit, "limit", 20, "size of the page, at most 1000")
	cmd.Flags().StringVar(&f.Cursor, "cursor", "", "continue after the previous page")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the page as JSON")
	connect := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.Outcome, f.Detail = rollout.Outcome(outcome), f.Limit <= rollout.MaxDetail

		if cmd.Flags().Changed("min-reward") {
			f.MinReward = &min
		}

		if cmd.Flags().Changed("max-reward") {
			f.MaxReward = &max
		}

		if since > 0 {
			f.Since = time.Now().Add(-since)
		}

		c := connect()

		page, err := c.List(cmd.Context(), f)
		if err != nil {
			return hint(err, c)
		}

		if asJSON {
			return json.NewEncoder(s.out).Encode(page)
		}

		cli.List(s.out, page.Rollouts, time.Now())

		if page.Unindexed > 0 {
			fmt.Fprintf(s.err, "the search does not know %d rollouts yet\n", page.Unindexed)
		}

		if page.Next != "" {
			// the cursor is valid with the same filters only
			fmt.Fprintf(s.err, "more: repeat the command with --cursor %s\n", page.Next)
		}

		return nil
	}

	return cmd
}
