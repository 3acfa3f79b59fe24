package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
)

func trajectoryCommand(s std) *cobra.Command {
	var (
		o     client.Sequences
		path  string
		group bool
	)

	cmd := &cobra.Command{
		Use:     "trajectory ID",
		Short:   "Write the training sequences of a rollout or a group that is done",
		Args:    rolloutID,
		GroupID: groupRollouts,
		Long:    "Trajectory writes token ids, loss mask and logprobs: as JSON lines, one per sequence; as a scored group of Atropos'\ntrainer API; or as the lists that a rollout_func of TRL returns.",
	}
	cmd.Flags().StringVar(&o.Format, "format", "jsonl", "jsonl, atropos or trl")
	cmd.Flags().
		StringVar(&o.Each, "sequences", "", "all of each rollout, or one: that with the most tokens to train on (default: one for atropos and trl)")
	cmd.Flags().StringVar(&o.Subagents, "subagents", "drop", "drop, or separate for sequences of subagents' turns, too")
	cmd.Flags().BoolVar(&group, "group", false, "ID is a group's")
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

		fetch := func(w io.Writer) error { return c.Trajectory(cmd.Context(), of, id, o, w) }

		var sent counter

		err = writeTo(s.out, path, func(w io.Writer) error { return fetch(io.MultiWriter(w, &sent)) })
		if err == nil && sent == 0 {
			sayUntrained(cmd.Context(), s, c, id, group)
		}

		if !group && fault.Is(err, fault.NotFound) {
			err = fmt.Errorf("%w; if that is a group:  rolloutd trajectory --group %s", err, id)
		}

		return hint(err, c)
	}

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
