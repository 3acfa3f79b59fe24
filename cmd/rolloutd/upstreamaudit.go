package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// upstreamAudit scores recorded turns again.
func upstreamAudit(s std) *cobra.Command {
	f := settings{s: s}
	cmd := &cobra.Command{
		Use:   "audit NAME",
		Short: "Score the latest turns again, and mark those that do not fit their weights",
		Args:  cli.Arguments("NAME"),
		Long: "Audit asks the endpoint for the log probabilities of recorded turns with an empty cache, and prints by version of the\n" +
			"weights how they differ: the mean absolute difference, and the estimators k1 and k3 of the KL divergence, in nats.",
	}
	f.register(cmd)

	var in gatewayapi.AuditRequest

	cmd.Flags().IntVar(&in.Turns, "turns", 32, "how many of the latest turns to score again")
	cmd.Flags().Float64Var(&in.Limit, "limit", 0.1, "mean absolute difference above which a turn is marked, in nats")
	cmd.Flags().IntVar(&in.Tokens, "tokens", 4096, "the most tokens of a request; vLLM needs memory for the logits of them all")
	cmd.Flags().BoolVar(&in.Drop, "drop", false, "do not train on marked turns")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := f.load(nil)
		if err != nil {
			return err
		}

		c, err := daemon.Trainer(cfg)
		if err != nil {
			return err
		}

		report, err := c.Audit(cmd.Context(), args[0], in)
		if err != nil {
			return trainerError(err, cfg)
		}

		printAudit(s.out, args[0], report)

		return nil
	}

	return cmd
}

func printAudit(out io.Writer, name string, r gatewayapi.AuditReport) {
	fmt.Fprintf(out, "%s: %d turns scored again, %d marked\n", name, r.Turns, len(r.Marked))

	for _, v := range r.Versions {
		fmt.Fprintf(out, "weights %q: %d turns, %d tokens, mean difference %.4f, k1 %.4f, k3 %.4f\n",
			v.Version, v.Turns, v.Tokens, v.MeanAbs, v.K1, v.K3)
	}

	for _, m := range r.Marked {
		fmt.Fprintf(out, "marked: %s turn %d, weights %q, mean difference %.4f\n", m.Route, m.Turn, m.Version, m.MeanAbs)
	}

	for _, reason := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(out, "skipped: %d, %s\n", r.Skipped[reason], reason)
	}
}
