package main

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// completeFlags makes a shell complete the values of flags that have the same ones in all commands.
func completeFlags(cmd *cobra.Command) {
	deliveries := make([]string, len(rollout.DeliveryStates()))
	for i, state := range rollout.DeliveryStates() {
		deliveries[i] = string(state)
	}

	for name, values := range map[string][]string{
		"endpoint":  catalog.Names(),
		"status":    {rollout.StatusRunning, rollout.StatusDone},
		"outcome":   outcomeNames(),
		"sort":      rollout.SortKeys(),
		"state":     deliveries,
		"grade":     {rollout.GradeFresh, rollout.GradeLive, rollout.GradeShared},
		"purpose":   {"auto", string(rollout.PurposeTrain), string(rollout.PurposeEval)},
		"log":       logNames,
		"subagents": {"drop", "separate"},
		"sequences": {"all", "one"},
	} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Value.Type() != "bool" {
			completeFlag(cmd, name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}

	for _, c := range cmd.Commands() {
		completeFlags(c)
	}
}

func completeFlag(cmd *cobra.Command, name string, from cobra.CompletionFunc) {
	// fails only for a flag that the command does not have
	_ = cmd.RegisterFlagCompletionFunc(name, from)
}

// completeEndpoints makes a shell complete the first argument with the names of endpoints.
func completeEndpoints(cmd *cobra.Command) {
	cmd.ValidArgsFunction = firstArgument(cobra.FixedCompletions(catalog.Names(), cobra.ShellCompDirectiveNoFileComp))
}

// completeFrom completes from what the server lists. A server that does not answer completes nothing.
func completeFrom(
	connect func() *client.Client, list func(*client.Client, context.Context, string) ([]string, error),
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
		values, err := list(connect(), cmd.Context(), begin)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}

		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

// firstArgument completes the first argument and no other.
func firstArgument(from cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}

		return from(cmd, args, begin)
	}
}

// completeRegrade completes ids of rollouts after the set, which is a file.
func completeRegrade(connect func() *client.Client) cobra.CompletionFunc {
	ids := completeFrom(connect, (*client.Client).IDs)

	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}

		return ids(cmd, args, begin)
	}
}

// completeFile completes an id, and then a file that the rollout left.
func completeFile(connect func() *client.Client) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return completeFrom(connect, (*client.Client).IDs)(cmd, args, begin)
		}

		c := connect()

		id, err := c.Resolve(cmd.Context(), args[0])
		if err != nil || len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}

		r, err := c.Stored(cmd.Context(), id)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}

		var names []string

		for _, name := range slices.Sorted(maps.Keys(r.Files)) {
			names = append(names, strings.TrimPrefix(path.Clean(name), rollout.Workdir+"/"))
		}

		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// groupFlag completes the value of --group, and returns a function that resolves a unique prefix of an id.
func groupFlag(cmd *cobra.Command, connect func() *client.Client, id *string) func(context.Context) error {
	completeFlag(cmd, "group", completeFrom(connect, (*client.Client).GroupIDs))

	return func(ctx context.Context) (err error) {
		if *id != "" {
			*id, err = connect().ResolveGroup(ctx, *id)
		}

		return err
	}
}

func outcomeNames() (names []string) {
	for _, o := range rollout.Outcomes() {
		names = append(names, string(o))
	}

	return names
}
