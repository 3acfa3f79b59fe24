package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func lsCommand(s std) *cobra.Command {
	var (
		f            rollout.Filter
		outcome      string
		reward       struct{ min, max float64 }
		turns        struct{ min, max int }
		took         struct{ min, max time.Duration }
		since, until time.Duration
	)

	asJSON := false
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List rollouts, running ones first",
		Args:    cli.Arguments(),
		GroupID: groupRollouts,
		Long:    "Ls lists the rollouts in Temporal: running ones, then the others, latest end first.\n--search, --agent, --endpoint, --sort and the bounds of turns and durations list only rollouts that have ended, also those\nthat Temporal has no more. With tokens it shows those\nof the token's owner, and all rollouts to an operator.",
	}
	cmd.Flags().StringVar(&f.Status, "status", "", "running or done (default: both)")
	cmd.Flags().StringVar(&f.Query, "search", "", "only rollouts that have ended and whose transcripts have these words; \"a phrase\" and word* are understood")
	cmd.Flags().StringVar(&f.TaskID, "task", "", "only rollouts of this task id")
	cmd.Flags().StringVar(&f.GroupID, "group", "", "only rollouts of this group id")
	cmd.Flags().StringVar(&outcome, "outcome", "", "only rollouts with this outcome: "+rollout.OutcomeNames())
	cmd.Flags().StringVar(&f.Model, "model", "", "only rollouts of this model")
	cmd.Flags().StringVar(&f.Agent, "agent", "", "only rollouts of this agent")
	cmd.Flags().StringVar(&f.Endpoint, "endpoint", "", "only rollouts of this model endpoint: its name, or its host and port")
	cmd.Flags().Float64Var(&reward.min, "min-reward", 0, "only rollouts with at least this reward")
	cmd.Flags().Float64Var(&reward.max, "max-reward", 0, "only rollouts with at most this reward")
	cmd.Flags().IntVar(&turns.min, "min-turns", 0, "only rollouts with at least so many turns in the last attempt")
	cmd.Flags().IntVar(&turns.max, "max-turns", 0, "only rollouts with at most so many turns in the last attempt")
	cmd.Flags().DurationVar(&took.min, "min-duration", 0, "only rollouts that took at least this time, such as 90s")
	cmd.Flags().DurationVar(&took.max, "max-duration", 0, "only rollouts that took at most this time")
	cmd.Flags().DurationVar(&since, "since", 0, "only rollouts that started within this time, such as 2h")
	cmd.Flags().DurationVar(&until, "until", 0, "only rollouts that started before this time ago")
	cmd.Flags().StringVar(&f.Sort, "sort", "", "sort by a field of the list, or by -FIELD for the greatest first: "+strings.Join(rollout.SortKeys(), ", "))
	cmd.Flags().IntVar(&f.Limit, "limit", 20, "size of the page, at most 1000")
	cmd.Flags().StringVar(&f.Cursor, "cursor", "", "continue after the previous page")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the page as JSON")
	connect := serverFlag(cmd, s)
	resolveGroup := groupFlag(cmd, connect, &f.GroupID)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.Outcome, f.Detail = rollout.Outcome(outcome), f.Limit <= rollout.MaxDetail

		f.MinReward, f.MaxReward = ifGiven(cmd, "min-reward", &reward.min), ifGiven(cmd, "max-reward", &reward.max)
		f.MinTurns, f.MaxTurns = ifGiven(cmd, "min-turns", &turns.min), ifGiven(cmd, "max-turns", &turns.max)
		f.MinDuration, f.MaxDuration = ifGiven(cmd, "min-duration", &took.min), ifGiven(cmd, "max-duration", &took.max)

		if since > 0 {
			f.Since = time.Now().Add(-since)
		}

		if until > 0 {
			f.Until = time.Now().Add(-until)
		}

		c := connect()

		if err := resolveGroup(cmd.Context()); err != nil {
			return hint(err, c)
		}

		page, err := c.List(cmd.Context(), f)
		if err != nil {
			return hint(err, c)
		}

		if asJSON {
			return json.NewEncoder(s.out).Encode(page)
		}

		cli.List(s.out, page.Rollouts, time.Now())

		sayIndexed(s, page)

		if page.Next != "" {
			// the cursor is valid with the same filters only
			fmt.Fprintf(s.err, "more: repeat the command with --cursor %s\n", page.Next)
		}

		return nil
	}

	return cmd
}

// ifGiven returns the value of a flag; nil: the flag was not given.
func ifGiven[T any](cmd *cobra.Command, name string, value *T) *T {
	if !cmd.Flags().Changed(name) {
		return nil
	}

	return value
}

// sayIndexed says which rollouts a search cannot find yet.
func sayIndexed(s std, page rollout.Page) {
	if page.Unindexed > 0 {
		fmt.Fprintf(s.err, "the search does not know %d rollouts yet\n", page.Unindexed)
	}

	if page.IndexedUntil != nil {
		fmt.Fprintf(s.err, "the index knows what ended before %s\n", page.IndexedUntil.Local().Format(time.TimeOnly))
	}
}
