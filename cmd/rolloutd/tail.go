package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// tailPause is the time between two requests to a server that does not answer.
const tailPause = time.Second

func tailCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tail ID",
		Short:   "Print what happens in a rollout, as it happens",
		Args:    rolloutID,
		GroupID: groupRollouts,
		Long:    "Tail prints the events of a rollout from its beginning until it is done: phases, texts and tool calls of the agent, model\ncalls and the verifier's commands. Ctrl-C stops it; the rollout continues.",
	}
	connect := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := connect()
		// Follow would wait for a server that does not answer
		st, err := c.State(cmd.Context(), args[0])
		switch {
		case err != nil:
			return hint(err, c)
		case st.Unknown():
			return needsRollout(fault.New(fault.NotFound, "%s has no rollout %q", c.Address(), args[0]), args[0])
		}

		f := &cli.Follower{Server: c, Out: s.out, Pause: tailPause, Verbose: true}

		return hint(f.Follow(cmd.Context(), args[0]), c)
	}

	return cmd
}
