package main

import (
	"context"
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

// takesID makes a command complete the ids of rollouts and groups, and returns a function that resolves a unique
// prefix of one.
func takesID(cmd *cobra.Command, connect func() *client.Client) func(context.Context, string) (string, error) {
	return takes(cmd, connect, (*client.Client).IDs, (*client.Client).Resolve)
}

// takesProducer is takesID for producers.
func takesProducer(cmd *cobra.Command, connect func() *client.Client) func(context.Context, string) (string, error) {
	return takes(cmd, connect, (*client.Client).ProducerIDs, (*client.Client).ResolveProducer)
}

func takes(
	cmd *cobra.Command,
	connect func() *client.Client,
	list func(*client.Client, context.Context, string) ([]string, error),
	resolve func(*client.Client, context.Context, string) (string, error),
) func(context.Context, string) (string, error) {
	cmd.ValidArgsFunction = firstArgument(completeFrom(connect, list))

	return func(ctx context.Context, id string) (string, error) { return resolve(connect(), ctx, id) }
}

func showCommand(s std) *cobra.Command {
	f := runFlags{}
	wait, state := false, false
	cmd := &cobra.Command{
		Use:     "show ID",
		Aliases: []string{"state", "result"},
		Short:   "Show the state of a rollout or a group, or its result once it is done",
		Long:    "Show prints the result of a rollout or a group that is done, and the state of a running one.\n\n" + cli.ExitCodes,
		Args:    rolloutID,
		GroupID: groupRollouts,
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "follow a running rollout to its end")
	cmd.Flags().BoolVar(&state, "state", false, "print the state as JSON, also of a rollout that is done")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON: the result, or the state of a running rollout")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 0, "with --wait: stop waiting after this long")
	connect := serverFlag(cmd, s)
	resolve := takesID(cmd, connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := f.waitContext(cmd.Context())
		defer cancel()

		c := connect()

		id, err := resolve(ctx, args[0])
		if err != nil {
			return hint(err, c)
		}

		st, err := c.State(ctx, id)
		if err != nil {
			return hint(err, c)
		}

		switch {
		case st.Unknown():
			return f.showGroup(ctx, s, c, id, wait, state)
		case state || !st.Done() && !wait:
			return printState(s, st, func() { cli.State(s.out, st) }, state || f.json)
		}

		r, raw, err := cli.Follow(ctx, c, id, s.err)

		return f.finish(s.out, r, raw, hint(err, c))
	}

	return cmd
}

// showGroup is the command show for a group.
func (f *runFlags) showGroup(ctx context.Context, s std, c *client.Client, id string, wait, state bool) error {
	g, err := c.Group(ctx, id)
	switch {
	case err != nil:
		return hint(noRolloutOrGroup(c, id, err), c)
	case state || !g.Done() && !wait:
		return printState(s, g, func() { cli.GroupState(s.out, g) }, state || f.json)
	}

	g, err = cli.FollowGroup(ctx, c, g, s.err)

	return f.finishGroup(s.out, g, hint(err, c))
}

// noRolloutOrGroup is the error for an id that is not a rollout's, given the error of the group with that id.
func noRolloutOrGroup(c *client.Client, id string, err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "%s has no rollout or group %q", c.Address(), id)
	}

	return err
}

// noRollout is the error for an id that no rollout has.
func noRollout(ctx context.Context, c *client.Client, id string) error {
	return needsRollout(ctx, c, fault.New(fault.NotFound, "%s has no rollout %q", c.Address(), id), id)
}

// needsRollout adds to an error of a request about a rollout that is done which command helps: the id may be a group's,
// which run --detach prints, too, and the rollout may run.
func needsRollout(ctx context.Context, c *client.Client, err error, id string) error {
	switch {
	case fault.Is(err, fault.NotFound) && isGroup(ctx, c, id):
		return fmt.Errorf("%w: it is a group; list its rollouts:  rolloutd ls --group %s", err, id)
	case fault.Is(err, fault.Conflict) && isRunning(ctx, c, id):
		return fmt.Errorf("%w; follow it:  rolloutd tail %s", err, id)
	default:
		return err
	}
}

func isGroup(ctx context.Context, c *client.Client, id string) bool {
	_, err := c.Group(ctx, id)
	return err == nil
}

func isRunning(ctx context.Context, c *client.Client, id string) bool {
	st, err := c.State(ctx, id)
	return err == nil && !st.Unknown() && !st.Done()
}

// printState writes a state as text or as JSON.
func printState(s std, state any, text func(), asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(s.out)
		enc.SetIndent("", "  ")

		return enc.Encode(state)
	}

	text()

	return nil
}

func abortCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "abort ID",
		Short:   "End a rollout or a group; the results so far are kept",
		Args:    rolloutID,
		GroupID: groupRollouts,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	connect := serverFlag(cmd, s)
	resolve := takesID(cmd, connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, kind := connect(), "rollout"

		id, err := resolve(cmd.Context(), args[0])
		if err != nil {
			return hint(err, c)
		}

		a, err := c.Abort(cmd.Context(), id)
		if err == nil && a.Unknown() {
			kind = "group"
			a, err = c.AbortGroup(cmd.Context(), id)
			err = noRolloutOrGroup(c, id, err)
		}

		switch {
		case err != nil:
			return hint(err, c)
		case !a.Aborted:
			return errors.New("not aborted: " + a.Reason)
		case *asJSON:
			return json.NewEncoder(s.out).Encode(map[string]any{kind + "_id": id, "aborted": true})
		}

		fmt.Fprintf(s.out, "aborting %s %s; show its result:  rolloutd show %[2]s\n", kind, id)

		return nil
	}

	return cmd
}
