package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func deliverCommand(s std) *cobra.Command {
	var spec rollout.DeliverySpec

	detach := false
	cmd := &cobra.Command{
		Use:     "deliver GROUP_ID --sink NAME",
		Short:   "Deliver a finished group to a sink",
		Args:    cli.Arguments("GROUP_ID"),
		GroupID: groupTraining,
		Long:    "Deliver records the delivery and waits until the sink has acknowledged the group. The server continues without the\ncommand until the sink answers; rolloutd deliveries lists undelivered groups.",
	}
	cmd.Flags().StringVar(&spec.Sink, "sink", "", "name of a sink in the server's configuration")
	cmd.Flags().BoolVar(&detach, "detach", false, "do not wait")
	cmd.Flags().Bool("json", false, "print errors as JSON, as the delivery is in any case")
	connect := serverFlag(cmd, s)
	resolve := takesID(cmd, connect)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if spec.Sink == "" {
			return errors.New("--sink: must be the name of a sink")
		}

		c := connect()

		id, err := resolve(cmd.Context(), args[0])
		if err != nil {
			return hint(err, c)
		}

		spec.GroupID = id

		d, err := deliver(cmd.Context(), c, spec, detach, s.err)
		if err != nil {
			return hint(err, c)
		}

		if err := json.NewEncoder(s.out).Encode(d); err != nil {
			return err
		}

		if d.State == rollout.DeliveryRefused || d.State == rollout.DeliverySkipped {
			return exitError(cli.ExitError)
		}

		return nil
	}

	return cmd
}

// deliver submits the delivery and, unless detached, requests its state until it has ended. It waits while the server is
// unreachable, since the delivery does not need it.
func deliver(
	ctx context.Context,
	c *client.Client,
	spec rollout.DeliverySpec,
	detach bool,
	progress io.Writer,
) (rollout.Delivery, error) {
	d, err := c.Deliver(ctx, spec)
	shown := ""

	for err == nil && !d.Done() && !detach {
		if d.Reason != shown {
			shown = d.Reason
			fmt.Fprintf(progress, "not delivered yet: %s\n", shown)
		}

		if clock.Sleep(ctx, time.Second) != nil {
			return d, exitError(cli.ExitDetached)
		}

		next, failed := c.Delivery(ctx, spec)
		switch {
		case failed == nil:
			d = next
		case !fault.Is(failed, fault.Unavailable):
			err = failed
		}
	}

	return d, err
}

func deliveriesCommand(s std) *cobra.Command {
	var (
		f     rollout.DeliveryFilter
		state string
	)

	asJSON := false
	cmd := &cobra.Command{
		Use:     "deliveries",
		Short:   "List deliveries of groups, those that have not ended first",
		Args:    cli.Arguments(),
		GroupID: groupTraining,
	}
	cmd.Flags().StringVar(&f.Sink, "sink", "", "only deliveries to this sink")
	cmd.Flags().StringVar(&state, "state", "", "only pending, delivered, refused or skipped deliveries")
	cmd.Flags().StringVar(&f.ProducerID, "producer", "", "only deliveries of the groups of this producer id")
	cmd.Flags().IntVar(&f.Limit, "limit", 20, "size of the page, at most 1000")
	cmd.Flags().StringVar(&f.Cursor, "cursor", "", "continue after the previous page")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the page as JSON")
	connect := serverFlag(cmd, s)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.State = rollout.DeliveryState(state)
		c := connect()

		page, err := c.Deliveries(cmd.Context(), f)
		if err != nil {
			return hint(err, c)
		}

		if asJSON {
			return json.NewEncoder(s.out).Encode(page)
		}

		cli.Deliveries(s.out, page.Deliveries)

		s.hintNext(page.Next)

		return nil
	}

	return cmd
}
