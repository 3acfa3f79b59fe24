package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// upstreamCommand holds a gateway's calls back while a trainer replaces the model's weights.
func upstreamCommand(s std) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upstream",
		Args:  cli.Subcommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Short: "Pause, drain and resume the calls to a model endpoint",
		Long: "While an endpoint is paused no call to it begins; agents wait. NAME is the endpoint's (vllm, openai, hf_router,\n" +
			"scripted), or host:port of one that is given by its URL alone. A pause ends by itself.",
	}
	var hold, wait time.Duration
	var abort bool
	show := upstreamAction(s, "show", "Print how the endpoint stands", (*gateway.Trainer).Upstream)
	resume := upstreamAction(s, "resume", "End a pause", (*gateway.Trainer).Resume)
	pause := upstreamAction(s, "pause", "Let no call begin; those under way go on", func(c *gateway.Trainer, ctx context.Context, name string) (gateway.UpstreamStatus, error) {
		return c.Pause(ctx, name, hold)
	})
	drain := upstreamAction(s, "drain", "Let no call begin, and wait until none is under way", func(c *gateway.Trainer, ctx context.Context, name string) (gateway.UpstreamStatus, error) {
		return c.Drain(ctx, name, hold, wait, abort)
	})
	for _, c := range []*cobra.Command{pause, drain} {
		c.Flags().DurationVar(&hold, "for", 10*time.Minute, "when the pause ends by itself")
	}
	drain.Flags().DurationVar(&wait, "wait", 5*time.Minute, "how long to wait; the pause stays when calls take longer")
	drain.Flags().BoolVar(&abort, "abort", false, "end the calls that take longer; they are made again after the pause")
	cmd.AddCommand(show, pause, drain, resume)
	return cmd
}

func upstreamAction(s std, name, short string, do func(*gateway.Trainer, context.Context, string) (gateway.UpstreamStatus, error)) *cobra.Command {
	f := settings{s: s}
	cmd := &cobra.Command{Use: name + " NAME", Short: short, Args: cli.Arguments("NAME")}
	f.register(cmd)
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
		switch {
		case fault.Is(err, fault.Unauthorized):
			return fmt.Errorf("%w: that gateway has another key than %s: name its data folder with --data, or set ROLLOUTD_ENCRYPTION_KEY", err, cfg.Data)
		case fault.Is(err, fault.Unavailable):
			return fmt.Errorf("%w\n  asked: %s; ROLLOUTD_TRAINER_URL names another", err, cfg.TrainerURL())
		case err != nil:
			return err
		}
		state := "open"
		if st.Paused {
			state = "paused until " + st.Until.Local().Format(time.DateTime)
		}
		fmt.Fprintf(s.out, "%s: %s, %d calls under way, %d waiting\n", args[0], state, st.InFlight, st.Queued)
		if st.Busy != "" && !st.Paused {
			fmt.Fprintf(s.out, "new rollouts wait: %s\n", st.Busy)
		}
		return nil
	}
	return cmd
}
