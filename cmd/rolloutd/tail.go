package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
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
	resolve := takesID(cmd, connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := connect()

		id, err := resolve(cmd.Context(), args[0])
		if err == nil {
			err = tail(cmd.Context(), c, id, s.out)
		}

		return hint(err, c)
	}

	return cmd
}

// tail prints the events of a rollout until it is done.
func tail(ctx context.Context, c *client.Client, id string, out io.Writer) error {
	// Follow would wait for a server that does not answer
	st, err := c.State(ctx, id)
	switch {
	case err != nil:
		return err
	case st.Unknown():
		return noRollout(ctx, c, id)
	}

	f := &cli.Follower{Server: c, Out: out, Pause: tailPause, Verbose: true}

	return f.Follow(ctx, id)
}
