package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
)

func hostsCommand(s std) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:     "hosts",
		Short:   "List the hosts: slots, warm sandboxes, load, version, last sign of life",
		Args:    cli.Subcommands,
		GroupID: groupHosts,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the hosts as JSON")
	connect := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c := connect()

		page, err := c.Hosts(cmd.Context())
		if err != nil {
			return hint(err, c)
		}

		if asJSON {
			return json.NewEncoder(s.out).Encode(page)
		}

		cli.Hosts(s.out, page.Hosts, time.Now())

		return nil
	}
	cmd.AddCommand(
		drainCommand(s, "drain", "Let a host take no new sandbox; those that run finish", true),
		drainCommand(s, "resume", "Let a host take sandboxes again", false),
	)

	return cmd
}

func drainCommand(s std, name, short string, on bool) *cobra.Command {
	cmd := &cobra.Command{Use: name + " NAME", Short: short, Args: cli.Arguments("NAME")}
	connect := serverFlag(cmd, s)
	cmd.ValidArgsFunction = firstArgument(completeFrom(connect, (*client.Client).HostNames))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := connect()

		h, err := c.DrainHost(cmd.Context(), args[0], on)
		if err != nil {
			return hint(err, c)
		}

		if h.Error != "" {
			fmt.Fprintf(s.err, "%s does not answer (%s): it obeys within a minute, or when it starts\n",
				args[0], h.Error)

			return nil
		}

		fmt.Fprintf(s.out, "%s is %s: %d of %d slots in use\n", args[0], h.State, h.Total().Used, h.Total().Slots)

		return nil
	}

	return cmd
}
