package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/fault"
)

func exportCommand(s std) *cobra.Command {
	var (
		path  string
		group bool
	)

	cmd := &cobra.Command{
		Use:     "export ID",
		Short:   "Write the page of a rollout or a group that is done as one HTML file",
		Args:    rolloutID,
		GroupID: groupRollouts,
		Long: "Export writes one HTML file that a browser opens without a server: the conversation, the tokens, the verifier,\n" +
			"the files and the logs, as the server's page shows them. It has what the task and the agent wrote, and no keys.",
	}
	cmd.Flags().BoolVar(&group, "group", false, "ID is a group's: the file has all its rollouts")
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

		err = writeTo(s.out, path, func(w io.Writer) error { return c.Page(cmd.Context(), of, id, w) })
		if !group && fault.Is(err, fault.NotFound) {
			err = fmt.Errorf("%w; if that is a group:  rolloutd export --group %s", err, id)
		}

		return hint(err, c)
	}

	return cmd
}
