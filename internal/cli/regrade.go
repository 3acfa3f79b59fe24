package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// RegradeJob is a rollout whose work is graded again by the verifier of a task.
type RegradeJob struct {
	RolloutID string
	Task      taskset.Task

	// changes to the task's arguments; see taskset.Change
	Changes map[string]any
}

// Regraded is how one rollout was graded again.
type Regraded struct {
	RegradeJob
	Regrade rollout.Regrade

	// the rollout's reward before
	Before *float64

	// there is no grade
	Err error
}

// Graded reports whether there is a new reward.
func (r Regraded) Graded() bool { return r.Err == nil && r.Regrade.Reward != nil }

// WriteJSON writes the grade, or the error in its place, as a line of JSON.
func (r Regraded) WriteJSON(w io.Writer) error {
	if r.Err != nil {
		return json.NewEncoder(w).Encode(map[string]any{"rollout_id": r.RolloutID, "error": NewJSONError(r.Err)})
	}

	return json.NewEncoder(w).Encode(r.Regrade)
}

// Regrade grades rollouts again, at most concurrency at once, and calls each at the end of each. If ctx ends, it
// returns its error; regrades that have started continue.
func Regrade(
	ctx context.Context,
	c *client.Client,
	jobs []RegradeJob,
	concurrency int,
	apply bool,
	each func(Regraded),
) error {
	var (
		mu sync.Mutex
		g  errgroup.Group
	)
	g.SetLimit(concurrency)

	for _, job := range jobs {
		g.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}

			r := regradeOne(ctx, c, job, apply)

			if ctx.Err() != nil {
				return context.Cause(ctx)
			}

			mu.Lock()
			defer mu.Unlock()

			each(r)

			return nil
		})
	}

	return g.Wait()
}

func regradeOne(ctx context.Context, c *client.Client, job RegradeJob, apply bool) Regraded {
	r := Regraded{RegradeJob: job}

	st, err := c.State(ctx, job.RolloutID)
	if err == nil && st.Unknown() {
		err = fault.New(fault.NotFound, "%s has no rollout %q", c.Address(), job.RolloutID)
	}

	if err == nil {
		args := job.Task.Arguments()
		taskset.Change(args, job.Changes)

		r.Before = st.Reward
		r.Regrade, err = c.Regrade(ctx, job.RolloutID, args, apply)
	}

	if err == nil && r.Regrade.Error != "" {
		err = fault.New(fault.VerifierFailed, "%s", r.Regrade.Error)
	}

	r.Err = err

	return r
}

// RegradeLine writes one line about a regrade.
func RegradeLine(w io.Writer, r Regraded) {
	if r.Err != nil {
		fmt.Fprintf(w, "  %-36s error: %s\n", plain(r.RolloutID), block(r.Err.Error(), "    "))
		return
	}

	var notes []string
	if why := r.Regrade.Grading.Why; why != "" {
		notes = append(notes, why)
	}

	if r.Regrade.NotApplied != "" {
		notes = append(notes, "not applied: "+r.Regrade.NotApplied)
	}

	if len(r.Regrade.DeliveredTo) > 0 {
		notes = append(notes, "delivered before to "+strings.Join(r.Regrade.DeliveredTo, ", "))
	}

	fmt.Fprintf(w, "  %-36s %s → %s  %s\n",
		plain(r.RolloutID), rewardOf(r.Before), rewardOf(r.Regrade.Reward), plain(strings.Join(notes, "; ")))
}

// RegradeTable writes what regrades changed.
func RegradeTable(w io.Writer, all []Regraded, apply bool) {
	changed, failed, delivered := 0, 0, 0

	for _, r := range all {
		switch {
		case !r.Graded():
			failed++
		case r.Before == nil || *r.Before != *r.Regrade.Reward:
			changed++
		}

		if len(r.Regrade.DeliveredTo) > 0 {
			delivered++
		}
	}

	fmt.Fprintf(w, "graded again: %d, with another reward: %d, without a reward: %d\n", len(all), changed, failed)

	if delivered > 0 {
		fmt.Fprintf(w, "%d of them were delivered with their earlier reward; no group is delivered again\n", delivered)
	}

	if !apply && changed > 0 {
		fmt.Fprintln(w, "the rollouts keep their rewards; --apply replaces them")
	}
}
