package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// rolloutID requires one argument, a valid rollout id.
func rolloutID(cmd *cobra.Command, args []string) error {
	if err := cli.Arguments("ID")(cmd, args); err != nil {
		return err
	}
	return rollout.CheckID(args[0])
}

func showCommand(s std) *cobra.Command {
	f := runFlags{}
	wait, state := false, false
	cmd := &cobra.Command{
		Use:     "show ID",
		Aliases: []string{"state"},
		Short:   "Show a rollout's state, or its result once it is done",
		Long:    "Show prints the result of a rollout that is done, and the state of a running one.\n\n" + cli.ExitCodes,
		Args:    rolloutID,
		GroupID: groupRollouts,
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "follow a running rollout to its end")
	cmd.Flags().BoolVar(&state, "state", false, "print the state as JSON, also of a rollout that is done")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON: the result, or the state of a running rollout")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "with --wait: stop waiting after this long")
	connect := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := f.waitContext(cmd.Context())
		defer cancel()
		c := connect()
		st, err := c.State(ctx, args[0])
		if err != nil {
			return hint(err, c)
		}
		switch {
		case st.Unknown():
			return noRollout(c, args[0])
		case state || !st.Done() && !wait:
			return printState(s, st, state || f.json)
		}
		r, raw, err := cli.Follow(ctx, c, args[0], s.err)
		return f.finish(s.out, r, raw, hint(err, c))
	}
	return cmd
}

// noRollout is the error for an id that the server does not know. It may be a group's, which run prints.
func noRollout(c *client.Client, id string) error {
	return fault.New(fault.NotFound, "%s has no rollout %q; if that is a group, list its rollouts:  rolloutd ls --group %[2]s", c.Address(), id)
}

// printState writes a state as text or as JSON.
func printState(s std, st client.State, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(s.out)
		enc.SetIndent("", "  ")
		return enc.Encode(st)
	}
	cli.State(s.out, st)
	return nil
}

func abortCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use: "abort ID", Short: "End a rollout; its results so far are kept", Args: rolloutID, GroupID: groupRollouts,
	}
	connect := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := connect()
		a, err := c.Abort(cmd.Context(), args[0])
		switch {
		case err != nil:
			return hint(err, c)
		case a.Unknown():
			return noRollout(c, args[0])
		case !a.Aborted:
			return errors.New("not aborted: " + a.Reason)
		}
		fmt.Fprintf(s.out, "aborting rollout %s; show its result:  rolloutd show %[1]s\n", args[0])
		return nil
	}
	return cmd
}
