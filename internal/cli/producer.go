package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
)

// producerPoll is the interval between two requests for a producer's state.
const producerPoll = time.Second

// FollowProducer prints a line whenever the sums of a producer change, until it has ended. It waits while
// the server is unreachable, since the producer does not need it.
func FollowProducer(ctx context.Context, c *client.Client, id string, progress io.Writer) (client.Producer, error) {
	last := ""

	for {
		p, err := c.Producer(ctx, id)
		switch {
		case ctx.Err() != nil:
			fmt.Fprintf(progress,
				"the producer continues; show it:  rolloutd produce show %[1]s   end it:  rolloutd produce stop %[1]s\n",
				id)

			return p, context.Cause(ctx)
		case err != nil && !fault.Is(err, fault.Unavailable):
			return p, err
		case err == nil:
			if line := producerLine(p.State); line != last {
				last = line
				fmt.Fprintln(progress, line)
			}

			if p.Done() {
				return p, nil
			}
		}

		// the next turn of the loop sees the end of ctx
		_ = clock.Sleep(ctx, producerPoll)
	}
}

// producerLine summarizes a producer in one line.
func producerLine(s producer.State) string {
	c := s.Counts

	return fmt.Sprintf("  %-8s step %d   groups: %d started, %d running, %d delivered, %d not   rollouts in flight: %d",
		s.Phase, s.Step, c.Started, len(s.Running), c.Delivered, notDelivered(c), s.InFlight())
}

// notDelivered counts groups that have ended and are not delivered.
func notDelivered(c producer.Counts) int64 {
	n := c.Skipped + c.Refused + c.Failed + c.Aborted
	for _, filtered := range c.Filtered {
		n += int64(filtered)
	}

	return n
}

// ProducerTable writes a producer as a small table for people.
func ProducerTable(w io.Writer, s producer.State) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("producer", "%s", s.ID)
	row("phase", "%s", strings.TrimSpace(string(s.Phase)+" "+string(s.Outcome)))
	row("sink", "%s", s.Sink)
	row("step", "%d", s.Step)
	c := s.Counts
	row("groups", "%d started, %d delivered, %d running, %d in the outbox",
		c.Started, c.Delivered, len(s.Running), len(s.Outbox))
	row("not", "%s", reasons(c))

	if c.Marked > 0 {
		row("stale", "%d delivered with a mark", c.Marked)
	}

	row("rollouts", "%d delivered, %d replaced, %d in flight of %d",
		c.Rollouts, c.Replaced, s.InFlight(), s.Bounds.Concurrency)

	for _, e := range s.Evaluated {
		row("eval", "step %d: mean %.4g of %d rollouts, %d passed", e.Step, e.Mean(), e.Rollouts, e.Passed)
	}

	if s.Waiting != "" {
		name := "waiting"
		if s.Done() {
			name = "reason"
		}

		row(name, "%s", plain(s.Waiting))
	}

	if s.Error != "" {
		row("error", "%s", plain(s.Error))
	}
}

// reasons counts groups that were not delivered, by reason.
func reasons(c producer.Counts) string {
	text := fmt.Sprintf("%d skipped, %d refused, %d failed, %d aborted", c.Skipped, c.Refused, c.Failed, c.Aborted)
	for _, why := range slices.Sorted(maps.Keys(c.Filtered)) {
		text += fmt.Sprintf(", %d %s", c.Filtered[why], why)
	}

	return text
}

// Producers writes producers as a table, one line each.
func Producers(w io.Writer, all []producer.Listed) {
	t := NewColumns(w, "PRODUCER", "STATE", "TASKS", "STARTED")

	for _, s := range all {
		t.Row(plain(s.ID), cmp.Or(string(s.Outcome), string(s.Phase)), orDash(short(plain(s.Name), maxName)),
			s.StartedAt.Local().Format(time.DateTime))
	}

	t.Flush()
}
