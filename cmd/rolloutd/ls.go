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

// lsFlags are the flags of ls.
type lsFlags struct {
	// what flags set as it is
	given rollout.Filter

	outcome      string
	reward       struct{ min, max float64 }
	turns        struct{ min, max int }
	took         struct{ min, max time.Duration }
	since, until time.Duration
	asJSON       bool
}

func lsCommand(s std) *cobra.Command {
	var f lsFlags

	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List rollouts, running ones first",
		Args:    cli.Arguments(),
		GroupID: groupRollouts,
		Long: "Ls lists the rollouts in Temporal: running ones, then the others, latest end first.\n" +
			"--search, --sort and the bounds of turns and durations list only rollouts that have ended, also those that Temporal has\n" +
			"deleted; --agent, --endpoint and --producer list these below the running ones. With tokens it shows those of the\n" +
			"token's owner, and all rollouts to an operator.",
	}
	f.register(cmd)
	connect := serverFlag(cmd, s)
	resolveGroup := groupFlag(cmd, connect, &f.given.GroupID)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c := connect()

		if err := resolveGroup(cmd.Context()); err != nil {
			return hint(err, c)
		}

		page, err := c.List(cmd.Context(), f.filter(cmd))
		if err != nil {
			return hint(err, c)
		}

		if f.asJSON {
			return json.NewEncoder(s.out).Encode(page)
		}

		cli.List(s.out, page.Rollouts, time.Now())
		sayIndexed(s, page)

		s.hintNext(page.Next)

		return nil
	}

	return cmd
}

func (f *lsFlags) register(cmd *cobra.Command) {
	fl, to := cmd.Flags(), &f.given
	fl.StringVar(&to.Status, "status", "", "running or done (default: both)")
	fl.StringVar(&to.Query, "search", "", "only rollouts that have ended and whose transcripts have these words; \"a phrase\" and word* are understood")
	fl.StringVar(&to.TaskID, "task", "", "only rollouts of this task id")
	fl.StringVar(&to.GroupID, "group", "", "only rollouts of this group id")
	fl.StringVar(&to.ProducerID, "producer", "", "only rollouts of the groups of this producer id")
	fl.StringVar(&f.outcome, "outcome", "", "only rollouts with this outcome: "+rollout.OutcomeNames())
	fl.StringVar(&to.Model, "model", "", "only rollouts of this model")
	fl.StringVar(&to.Agent, "agent", "", "only rollouts of this agent")
	fl.StringVar(&to.Endpoint, "endpoint", "", "only rollouts of this model endpoint: its name, or its host and port")
	fl.Float64Var(&f.reward.min, "min-reward", 0, "only rollouts with at least this reward")
	fl.Float64Var(&f.reward.max, "max-reward", 0, "only rollouts with at most this reward")
	fl.IntVar(&f.turns.min, "min-turns", 0, "only rollouts with at least so many turns in the last attempt")
	fl.IntVar(&f.turns.max, "max-turns", 0, "only rollouts with at most so many turns in the last attempt")
	fl.DurationVar(&f.took.min, "min-duration", 0, "only rollouts that took at least this time, such as 90s")
	fl.DurationVar(&f.took.max, "max-duration", 0, "only rollouts that took at most this time")
	fl.Var((*ageFlag)(&f.since), "since", "only rollouts that started within this time, such as 2h or 7d")
	fl.Var((*ageFlag)(&f.until), "until", "only rollouts that started before this time ago")
	fl.StringVar(&to.Sort, "sort", "", "sort by a field of the list, or by -FIELD for the greatest first: "+strings.Join(rollout.SortKeys(), ", "))
	fl.IntVar(&to.Limit, "limit", 20, "size of the page, at most 1000")
	fl.StringVar(&to.Cursor, "cursor", "", "continue after the previous page")
	fl.BoolVar(&f.asJSON, "json", false, "print the page as JSON")
}

// filter is the filter of the flags.
func (f *lsFlags) filter(cmd *cobra.Command) rollout.Filter {
	to := f.given
	to.Outcome, to.Detail = rollout.Outcome(f.outcome), to.Limit <= rollout.MaxDetail

	to.MinReward, to.MaxReward = ifGiven(cmd, "min-reward", &f.reward.min), ifGiven(cmd, "max-reward", &f.reward.max)
	to.MinTurns, to.MaxTurns = ifGiven(cmd, "min-turns", &f.turns.min), ifGiven(cmd, "max-turns", &f.turns.max)
	to.MinDuration, to.MaxDuration = ifGiven(cmd, "min-duration", &f.took.min), ifGiven(cmd, "max-duration", &f.took.max)

	if f.since > 0 {
		to.Since = time.Now().Add(-f.since)
	}

	if f.until > 0 {
		to.Until = time.Now().Add(-f.until)
	}

	return to
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
