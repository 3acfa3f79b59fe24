package main

import (
	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/fault"
)

func viewCommand(s std) *cobra.Command {
	turn := 0
	cmd := &cobra.Command{
		Use:     "view ID",
		Short:   "Show the conversation, the model calls and the verifier of a rollout that is done",
		Args:    rolloutID,
		GroupID: groupRollouts,
		Long: "View shows in the terminal what the server's page shows: each model call with the agent's texts and tool calls,\n" +
			"then the commands of the verifier with their output, then the result. Read it with a pager:\n" +
			"rolloutd view ID | less. rolloutd tail shows a rollout that runs.",
	}
	cmd.Flags().IntVar(&turn, "turn", 0, "show this turn alone, with its system prompt and long texts whole")
	connect := serverFlag(cmd, s)
	resolve := takesID(cmd, connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if turn < 0 {
			return fault.New(fault.Invalid, "--turn: turns are numbered from 1, got %d", turn)
		}

		c := connect()

		id, err := resolve(cmd.Context(), args[0])
		if err != nil {
			return hint(err, c)
		}

		if turn > 0 {
			err = cli.ViewTurn(cmd.Context(), c, id, turn, s.out)
		} else {
			err = cli.View(cmd.Context(), c, id, s.out)
		}

		return hint(needsRollout(cmd.Context(), c, err, id), c)
	}

	return cmd
}
