package main

import (
	"fmt"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/agent/programs"
	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/daemon"
)

func agentsCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "agents",
		Short:   "Remove earlier versions of agents from this host",
		GroupID: groupHosts,
	}
	cmd.AddCommand(agentsPruneCommand(s))

	return cmd
}

func agentsPruneCommand(s std) *cobra.Command {
	remove := false
	f := settings{s: s}
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove programs of agents that nothing uses; without --delete say which",
		Args:  cli.Arguments(),
		Long: "A worker does this by itself, at its start and every retention.every. Prune keeps the versions that this build and\n" +
			"its configuration install, and those with which a rollout began in the last 120 days, longer than which none runs.",
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&remove, "delete", false, "remove them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.load(nil)
		if err != nil {
			return err
		}

		agents, err := daemon.Programs(c, f.log())
		if err != nil {
			return err
		}

		return pruneAgents(cmd, s, agents, remove)
	}

	return cmd
}

// pruneAgents lists the programs that nothing uses, and removes them on request.
func pruneAgents(cmd *cobra.Command, s std, agents programs.Folder, remove bool) error {
	now := time.Now()

	surplus, err := agents.Surplus(now)
	if err != nil {
		return err
	}

	for _, p := range surplus {
		fmt.Fprintf(
			s.out, "%s  %s  last used %s\n", p.Name, units.BytesSize(float64(p.Bytes)), p.UsedAt.Format(time.DateTime),
		)
	}

	if !remove {
		fmt.Fprintf(s.out, "%d programs to remove; nothing is removed without --delete\n", len(surplus))

		return nil
	}

	removed, err := agents.Collect(cmd.Context(), now)
	fmt.Fprintf(s.out, "%d programs removed\n", len(removed))

	return err
}
