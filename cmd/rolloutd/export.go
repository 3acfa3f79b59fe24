package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
)

func exportCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "export ID",
		Short:   "Write the page of a rollout or a group that is done as one HTML file",
		Args:    rolloutID,
		GroupID: groupRollouts,
		Long: "Export writes one HTML file that a browser opens without a server: the conversation, the tokens, the verifier,\n" +
			"the files and the logs, as the server's page shows them. It has what the task and the agent wrote, and no keys.",
	}
	downloads(s, cmd, func(ctx context.Context, c *client.Client, of, id string, w io.Writer) error {
		return c.Page(ctx, of, id, w)
	})

	return cmd
}

// downloads makes cmd write what the server has of a rollout that is done, or with --group of a group. of is "rollouts"
// or "groups".
func downloads(
	s std, cmd *cobra.Command, fetch func(ctx context.Context, c *client.Client, of, id string, w io.Writer) error,
) {
	var (
		path  string
		group bool
	)

	cmd.Flags().BoolVar(&group, "group", false, "ID is a group's: write all its rollouts")
	cmd.Flags().StringVarP(&path, "output", "o", "", "file to write (default: standard output)")
	connect := serverFlag(cmd, s)
	resolve := takesID(cmd, connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := connect()

		of := "rollouts"
		if group {
			of = "groups"
		}

		id, err := resolve(cmd.Context(), args[0])
		if err != nil {
			return hint(err, c)
		}

		err = writeTo(s.out, path, func(w io.Writer) error { return fetch(cmd.Context(), c, of, id, w) })

		switch {
		case group:
		case fault.Is(err, fault.NotFound) && isGroup(cmd.Context(), c, id):
			err = fmt.Errorf("%w: it is a group:  rolloutd %s --group %s", err, cmd.Name(), id)
		default:
			err = needsRollout(cmd.Context(), c, err, id)
		}

		return hint(err, c)
	}
}
