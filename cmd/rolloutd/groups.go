package main

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func groupsCommand(s std) *cobra.Command {
	var f rollout.Filter

	asJSON := false
	cmd := &cobra.Command{
		Use:     "groups",
		Short:   "List groups of rollouts, running ones first",
		Args:    cli.Arguments(),
		GroupID: groupRollouts,
		Long: "Groups lists groups of rollouts of one task. rolloutd show ID shows the rewards of one, and rolloutd ls --group ID\n" +
			"lists its rollouts.",
	}
	cmd.Flags().StringVar(&f.Status, "status", "", "running or done (default: both)")
	cmd.Flags().StringVar(&f.TaskID, "task", "", "only groups of this task id")
	cmd.Flags().IntVar(&f.Limit, "limit", 20, "size of the page, at most 1000")
	cmd.Flags().StringVar(&f.Cursor, "cursor", "", "continue after the previous page")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the page as JSON")
	connect := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c := connect()

		page, err := c.Groups(cmd.Context(), f)
		if err != nil {
			return hint(err, c)
		}

		if asJSON {
			return json.NewEncoder(s.out).Encode(page)
		}

		cli.Groups(s.out, page.Groups, time.Now())

		s.hintNext(page.Next)

		return nil
	}

	return cmd
}
