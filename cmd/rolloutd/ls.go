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
	var f rollout.Filter
	var outcome string
	asJSON := false
	cmd := &cobra.Command{
		Use: "ls", Short: "List rollouts, those that run first", Args: cli.Arguments(), GroupID: groupRollouts,
		Long: "Ls lists the rollouts that Temporal still knows: those that run, then the others by their end, latest first.\nWhere the server wants tokens, it needs an operator's.",
	}
	cmd.Flags().StringVar(&f.Status, "status", "", "running or done (default: both)")
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.GroupID, "group", "", "of this group")
	cmd.Flags().StringVar(&outcome, "outcome", "", "that ended so: "+rollout.OutcomeNames())
	cmd.Flags().IntVar(&f.Limit, "limit", 20, "at most this many, 1000 or fewer")
	cmd.Flags().StringVar(&f.Cursor, "cursor", "", "go on where the list before ended")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the page as JSON")
	client := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.Outcome = rollout.Outcome(outcome)
		c := client()
		page, err := c.List(cmd.Context(), f)
		if err != nil {
			return hint(err, c)
		}
		if asJSON {
			return json.NewEncoder(s.out).Encode(page)
		}
		cli.List(s.out, page.Rollouts, time.Now())
		if page.Next != "" {
			fmt.Fprintf(s.err, "more:  the same with --cursor %s\n", page.Next) // without the other flags it is another list
		}
		return nil
	}
	return cmd
}
