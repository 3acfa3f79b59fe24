package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli/client"
)

func trajectoryCommand(s std) *cobra.Command {
	var o client.Sequences

	cmd := &cobra.Command{
		Use:     "trajectory ID",
		Short:   "Write the training sequences of a rollout or a group that is done",
		Args:    rolloutID,
		GroupID: groupRollouts,
		Long:    "Trajectory writes token ids, loss mask and logprobs: as JSON lines, one per sequence; as a scored group of Atropos'\ntrainer API; or as the lists that a rollout_func of TRL returns.",
	}
	cmd.Flags().StringVar(&o.Format, "format", "jsonl", "jsonl, atropos or trl")
	cmd.Flags().StringVar(&o.Each, "sequences", "",
		"all of each rollout, or one: that with the most tokens to train on (default: one for atropos and trl)")
	cmd.Flags().StringVar(&o.Subagents, "subagents", "drop", "drop, or separate for sequences of subagents' turns, too")
	cmd.Flags().StringVar(&o.Summaries, "summaries", "drop", "drop, or train for sequences of the calls that made summaries, too")
	downloads(s, cmd, func(ctx context.Context, c *client.Client, of, id string, w io.Writer) error {
		var sent counter

		err := c.Trajectory(ctx, of, id, o, io.MultiWriter(w, &sent))
		if err == nil && sent == 0 {
			sayUntrained(ctx, s, c, id, of == "groups")
		}

		return err
	})

	return cmd
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// sayUntrained says why there are no sequences.
func sayUntrained(ctx context.Context, s std, c *client.Client, id string, group bool) {
	if group {
		fmt.Fprintln(s.err, "no rollout of the group has sequences to train on: see untrained in the result of each")
		return
	}

	why := "no model call of the agent can be trained on"
	if result, _, err := c.Result(ctx, id); err == nil && result.Untrained != "" {
		why = result.Untrained
	}

	fmt.Fprintln(s.err, "no sequences: "+why)
}
