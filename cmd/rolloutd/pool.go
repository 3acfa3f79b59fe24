package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/daemon/pools"
	"github.com/rolloutd/rolloutd/internal/pool"
)

// poolTimeout bounds the requests of a command.
const poolTimeout = time.Minute

func poolCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pool",
		Short:   "Keep a pool of hosts on Nomad",
		GroupID: groupHosts,
		Long: "A pool is a Nomad job of hosts, kept between min_containers and max_containers by a server whose configuration has it\n" +
			"(pools.NAME). The commands need the same configuration, Temporal and the deployment's key.",
	}
	cmd.AddCommand(poolUp(s), poolStatus(s), poolScale(s), poolDown(s))

	return cmd
}

// poolAction is a command that changes or reads one pool.
func poolAction(
	s std,
	use, short string,
	args cobra.PositionalArgs,
	do func(context.Context, *pools.Operator, []string) error,
) *cobra.Command {
	f := settings{s: s}
	cmd := &cobra.Command{Use: use, Short: short, Args: args}
	f.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := f.load(nil)
		if err != nil {
			return err
		}

		ctx, cancel := context.WithTimeout(cmd.Context(), poolTimeout)
		defer cancel()

		o, err := pools.Dial(ctx, cfg)
		if err != nil {
			return err
		}
		defer o.Close()

		return do(ctx, o, args)
	}

	return cmd
}

func poolUp(s std) *cobra.Command {
	return poolAction(
		s,
		"up NAME",
		"Start a pool of the configuration, or give one that is up its new settings",
		cli.Arguments("NAME"),
		func(ctx context.Context, o *pools.Operator, args []string) error {
			spec, err := o.Spec(args[0])
			if err != nil {
				return err
			}

			for _, note := range spec.Notes() {
				fmt.Fprintln(s.err, "note:", note)
			}

			spec.UpAt = time.Now().UTC()
			if err := o.Up(ctx, spec); err != nil {
				return err
			}

			fmt.Fprintf(s.out, "pool %s: %d to %d hosts of %d slots in Nomad job %s\n",
				spec.Name, *spec.Min, spec.Max, spec.Slots, spec.JobID)

			return nil
		},
	)
}

func poolScale(s std) *cobra.Command {
	return poolAction(
		s,
		"scale NAME HOSTS",
		"Give a pool a fixed number of hosts, or auto to follow the rollouts that wait",
		cli.Arguments("NAME", "HOSTS"),
		func(ctx context.Context, o *pools.Operator, args []string) error {
			hosts, err := wantedHosts(args[1])
			if err != nil {
				return err
			}

			spec, _, err := o.Status(ctx, args[0])
			if err != nil && spec.Name == "" {
				return err
			}

			if hosts != nil && *hosts > spec.Max {
				return fmt.Errorf("HOSTS: must be at most max_containers (%d), got %d", spec.Max, *hosts)
			}

			if err := o.Scale(ctx, args[0], hosts); err != nil {
				return err
			}

			fmt.Fprintf(s.out, "pool %s: hosts start, or leave when they are empty (rolloutd pool status %s)\n",
				args[0], args[0])

			return nil
		},
	)
}

// wantedHosts reads a number of hosts; nil: auto.
func wantedHosts(arg string) (*int, error) {
	if arg == "auto" {
		// no number, no error
		return nil, nil
	}

	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("HOSTS: must be a number of hosts or auto, got %q", arg)
	}

	return &n, nil
}

func poolDown(s std) *cobra.Command {
	now := false
	cmd := poolAction(s, "down NAME", "Take a pool down: its hosts leave when they are empty", cli.Arguments("NAME"),
		func(ctx context.Context, o *pools.Operator, args []string) error {
			how := pool.DownDrained
			if now {
				how = pool.DownNow
			}

			if err := o.Down(ctx, args[0], how); err != nil {
				return err
			}

			fmt.Fprintf(s.out, "pool %s goes down (rolloutd pool status %s)\n", args[0], args[0])

			return nil
		})
	cmd.Flags().BoolVar(&now, "now", false, "stop hosts at once; each of their rollouts loses an attempt")

	return cmd
}

func poolStatus(s std) *cobra.Command {
	asJSON := false
	cmd := poolAction(s, "status NAME", "Show the hosts of a pool, and what waits for them", cli.Arguments("NAME"),
		func(ctx context.Context, o *pools.Operator, args []string) error {
			spec, status, err := o.Status(ctx, args[0])
			if err != nil {
				return err
			}

			if asJSON {
				return json.NewEncoder(s.out).Encode(map[string]any{"spec": spec, "status": status})
			}

			cli.Pool(s.out, spec, status, time.Now())

			return nil
		})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the pool as JSON")

	return cmd
}
