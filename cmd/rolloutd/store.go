package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/retention"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

func storeCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "store",
		Short:   "Show what the store holds, and delete old rollouts",
		GroupID: groupHosts,
		Long: "The commands of store read the configuration and open the store themselves. They need no server, and run on any\n" +
			"machine that has the configuration of the deployment.",
	}
	cmd.AddCommand(storeUsageCommand(s), storePruneCommand(s))

	return cmd
}

func storeUsageCommand(s std) *cobra.Command {
	asJSON := false
	f := &settings{s: s}
	cmd := &cobra.Command{
		Use:   "du",
		Short: "Show what the store and this host's data folder hold by kind",
		Args:  cli.Arguments(),
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the kinds as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := f.load(nil)
		if err != nil {
			return err
		}

		return f.withStore(cmd.Context(), func(ctx context.Context, st *store.Store) error {
			usage, err := measure(ctx, c, st)
			if err != nil {
				return err
			}

			if asJSON {
				return json.NewEncoder(s.out).Encode(usage)
			}

			cli.StoreUsage(s.out, usage, time.Now())

			return nil
		})
	}

	return cmd
}

// measure sums the store and, where this machine is a host or a server, its data folder.
func measure(ctx context.Context, c config.Config, st *store.Store) ([]retention.Usage, error) {
	stored, err := retention.Measure(ctx, st)
	if err != nil {
		return nil, err
	}

	here, err := retention.MeasureFolder(c.Data, filepath.Clean(c.StoreURL()))

	return append(stored, here...), err
}

func storePruneCommand(s std) *cobra.Command {
	var (
		p        retention.Policy
		older    string
		outcomes []string
		maxMiB   int64
	)

	remove := false
	f := &settings{s: s}
	cmd := &cobra.Command{
		Use:   "prune --older-than AGE",
		Short: "Delete old rollouts from the store; without --delete say what would be deleted",
		Args:  cli.Arguments(),
		Long: "Prune deletes results, traces, transcripts, logs and workspaces of rollouts to which nothing was written for\n" +
			"--older-than, oldest first. It keeps rollouts without a result, those that rolloutd keep pins, and those of groups\n" +
			"that run, that a sink has not acknowledged, or whose producer may run. What a trainer fetches by itself is\n" +
			"acknowledged by nobody: choose an age that it does not reach. Without --outcome it also deletes records of groups,\n" +
			"producers, deliveries and hosts of that age that no rollout needs, and, after 120 days without a write or use, rollouts\n" +
			"without a result and task files.",
	}
	f.register(cmd)
	cmd.Flags().StringVar(&older, "older-than", "",
		"age from which rollouts may be deleted, such as 30d or 36h; required")
	cmd.Flags().StringSliceVar(&outcomes, "outcome", nil, "only rollouts with these outcomes: "+rollout.OutcomeNames())
	cmd.Flags().Int64Var(&maxMiB, "max-mib", 0,
		"delete only until the store holds at most this many MiB; 0: age decides alone")
	cmd.Flags().BoolVar(&p.Undelivered, "undelivered", false,
		"also delete rollouts of groups without a recorded delivery that a running producer may have made")
	cmd.Flags().BoolVar(&remove, "delete", false, "delete them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if p.OlderThan, err = parseAge(older); err != nil {
			return err
		}

		p.MaxBytes = maxMiB << 20
		for _, o := range outcomes {
			p.Outcomes = append(p.Outcomes, rollout.Outcome(o))
		}

		return f.withStore(cmd.Context(), func(ctx context.Context, st *store.Store) error {
			return prune(ctx, s, retention.Pruner{Store: st, Policy: p, Now: time.Now()}, remove)
		})
	}

	return cmd
}

// prune shows what a policy deletes, and deletes it on request.
func prune(ctx context.Context, s std, p retention.Pruner, remove bool) error {
	plan, err := p.Plan(ctx)
	if err != nil {
		return err
	}

	cli.StorePlan(s.out, plan)

	if !remove {
		if len(plan.Delete)+len(plan.Records) > 0 {
			fmt.Fprintln(s.out, "nothing is deleted without --delete")
		}

		return nil
	}

	n, err := p.Prune(ctx, plan)
	fmt.Fprintf(s.out, "%d rollouts deleted\n", n)

	return err
}

func keepCommand(s std) *cobra.Command {
	off := false
	f := &settings{s: s}
	cmd := &cobra.Command{
		Use:     "keep ID",
		Short:   "Keep a rollout, or all rollouts of a group, from being deleted by store prune",
		Args:    cli.Arguments("ID"),
		GroupID: groupHosts,
		Long: "Keep reads the configuration and opens the store itself, as the commands of rolloutd store do. ID is the id of a\n" +
			"rollout or of a group, or its unique begin. A whole id need not exist yet.",
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&off, "off", false, "let it be deleted again")
	cmd.ValidArgsFunction = firstArgument(f.completeStored)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := rollout.CheckID(args[0]); err != nil {
			return err
		}

		return f.withStore(cmd.Context(), func(ctx context.Context, st *store.Store) error {
			return setPinned(ctx, s.out, st, args[0], !off)
		})
	}

	return cmd
}

// setPinned pins what a text begins, or ends that.
func setPinned(ctx context.Context, out io.Writer, st *store.Store, begin string, on bool) error {
	found, err := retention.IDs(ctx, st, begin)
	if err != nil {
		return err
	}

	// one that is not in the store may come
	id := begin
	if len(found) == 1 {
		id = found[0]
	}

	if len(found) > 1 && !slices.Contains(found, begin) {
		return client.Ambiguous(begin, found)
	}

	if err := retention.Pin(ctx, st, id, on); err != nil {
		return err
	}

	switch {
	case !on:
		fmt.Fprintf(out, "%s is no longer kept\n", id)
	case len(found) == 0:
		fmt.Fprintf(out, "%s is kept; the store has no rollout or group of this id yet\n", id)
	default:
		fmt.Fprintf(out, "%s is kept\n", id)
	}

	return nil
}

// completeStored completes the ids of rollouts and groups of the store.
func (f *settings) completeStored(
	cmd *cobra.Command,
	_ []string,
	begin string,
) (ids []string, _ cobra.ShellCompDirective) {
	err := f.withStore(cmd.Context(), func(ctx context.Context, st *store.Store) (err error) {
		ids, err = retention.IDs(ctx, st, begin)
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}

	return ids, cobra.ShellCompDirectiveNoFileComp
}

// withStore opens the configured store for do.
func (f *settings) withStore(ctx context.Context, do func(context.Context, *store.Store) error) error {
	c, err := f.load(nil)
	if err != nil {
		return err
	}

	st, err := daemon.OpenStore(ctx, c)
	if err != nil {
		return err
	}

	return errors.Join(do(ctx, st), st.Close())
}

// ageFlag is a duration that may be given in days.
type ageFlag time.Duration

// Set implements pflag.Value.
func (a *ageFlag) Set(text string) error {
	age, err := parseAge(text)
	*a = ageFlag(age)

	return err
}

// String implements pflag.Value; "": the flag is not set.
func (a *ageFlag) String() string {
	if *a == 0 {
		return ""
	}

	return time.Duration(*a).String()
}

// Type implements pflag.Value.
func (a *ageFlag) Type() string { return "duration" }

// parseAge reads a duration of Go, or a number of days such as 30d.
func parseAge(text string) (time.Duration, error) {
	const day, mostDays = 24 * time.Hour, 36500

	days, inDays := strings.CutSuffix(text, "d")
	if n, err := strconv.Atoi(days); inDays && err == nil && n >= 0 && n <= mostDays {
		return time.Duration(n) * day, nil
	}

	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fault.Field("older-than", "must be an age such as 30d or 36h, got %q", text)
	}

	return d, nil
}
