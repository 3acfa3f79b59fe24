package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// upstreamCommand pauses a gateway's calls while a trainer replaces the model's weights.
func upstreamCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "upstream",
		Aliases: []string{"endpoints"},
		Args:    cli.Subcommands,
		Short:   "List model endpoints; pause, drain and resume their calls",
		GroupID: groupTraining,
		Long: "Without a command it lists the endpoints, as ls does.\n\n" +
			"While an endpoint is paused, no call to it begins and agents wait. NAME is the name of an endpoint (vllm, openai,\n" +
			"hf_router, scripted), or HOST:PORT of an endpoint without a name. A pause ends after --for.\n" +
			"All commands but ls ask the gateway's trainer API at ROLLOUTD_TRAINER_URL (default http://127.0.0.1:7071), no server,\n" +
			"and need the deployment's key: --data names the gateway's data folder, or ROLLOUTD_ENCRYPTION_KEY has it.",
	}

	listsEndpoints(s, cmd)

	var (
		hold, wait time.Duration
		abort      bool
		version    string
	)

	show := upstreamAction(s, "show", "Print the endpoint's state", (*gatewayapi.Trainer).Upstream)
	resume := upstreamAction(s, "resume", "End a pause",
		func(c *gatewayapi.Trainer, ctx context.Context, name string) (gatewayapi.UpstreamStatus, error) {
			return c.Resume(ctx, name, version)
		})
	resume.Flags().StringVar(&version, "version", "",
		"name of the weights that the endpoint has from now on, such as step-12")

	pause := upstreamAction(s, "pause", "Let no call begin; calls in flight continue",
		func(c *gatewayapi.Trainer, ctx context.Context, name string) (gatewayapi.UpstreamStatus, error) {
			return c.Pause(ctx, name, hold)
		})

	drain := upstreamAction(s, "drain", "Let no call begin, and wait until no call is in flight",
		func(c *gatewayapi.Trainer, ctx context.Context, name string) (gatewayapi.UpstreamStatus, error) {
			return c.Drain(ctx, name, hold, wait, abort)
		})

	for _, c := range []*cobra.Command{pause, drain} {
		c.Flags().DurationVar(&hold, "for", 10*time.Minute, "how long the pause lasts")
	}

	drain.Flags().DurationVar(&wait, "wait", 5*time.Minute,
		"how long to wait for calls in flight; the pause remains if they take longer")
	drain.Flags().BoolVar(&abort, "abort", false, "cancel calls that take longer; they are repeated after the pause")
	cmd.AddCommand(upstreamLs(s), show, pause, drain, resume, upstreamAudit(s))

	return cmd
}

func upstreamAction(
	s std,
	name, short string,
	do func(*gatewayapi.Trainer, context.Context, string) (gatewayapi.UpstreamStatus, error),
) *cobra.Command {
	f := settings{s: s}
	cmd := &cobra.Command{Use: name + " NAME", Short: short, Args: cli.Arguments("NAME")}
	f.register(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print the endpoint's state as JSON")

	completeEndpoints(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := f.load(nil)
		if err != nil {
			return err
		}

		c, err := daemon.Trainer(cfg)
		if err != nil {
			return err
		}

		st, err := do(c, cmd.Context(), args[0])
		if err != nil {
			return trainerError(err, cfg)
		}

		if *asJSON {
			return json.NewEncoder(s.out).Encode(st)
		}

		printUpstream(s.out, args[0], st)

		return nil
	}

	return cmd
}

// printUpstream writes an endpoint's state for people.
func printUpstream(w io.Writer, name string, st gatewayapi.UpstreamStatus) {
	state := "open"
	if st.Paused {
		state = "paused until " + st.Until.Local().Format(time.DateTime)
	}

	if st.Version != "" {
		state += ", weights " + st.Version
	}

	fmt.Fprintf(w, "%s: %s, %d calls in flight, %d waiting\n", name, state, st.InFlight, st.Queued)

	if st.Unreachable != "" {
		fmt.Fprintln(w, st.Unreachable)
	}

	if !st.SilentSince.IsZero() {
		fmt.Fprintf(
			w, "silent since %s, though it has calls: it may be frozen\n",
			st.SilentSince.Local().Format(time.TimeOnly),
		)
	}

	for _, word := range slices.Sorted(maps.Keys(st.Faults)) {
		fmt.Fprintf(w, "%s: %d replies\n", word, st.Faults[word])
	}

	if st.Busy != "" && !st.Paused && st.Busy != st.Unreachable {
		fmt.Fprintf(w, "new rollouts wait: %s\n", st.Busy)
	}

	if st.Audit != nil {
		printAudit(w, "latest audit", *st.Audit)
	}
}

// trainerError says how to reach the trainer API of another gateway.
func trainerError(err error, cfg config.Config) error {
	switch {
	case fault.Is(err, fault.Unauthorized):
		return fmt.Errorf(
			"%w: the gateway has another key than %s: set its data folder with --data, or its key with ROLLOUTD_ENCRYPTION_KEY",
			err,
			cfg.Data,
		)
	case fault.Is(err, fault.Unavailable):
		return fmt.Errorf("%w\n  tried: %s; set another with ROLLOUTD_TRAINER_URL", err, cfg.TrainerURL())
	default:
		return err
	}
}
