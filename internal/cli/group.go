package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// RunGroup submits a group and follows it to its end.
func RunGroup(ctx context.Context, c *client.Client, args map[string]any, progress io.Writer) (client.Group, error) {
	g, err := c.StartGroup(ctx, args)
	if err != nil {
		return g, err
	}

	return FollowGroup(ctx, c, g, progress)
}

// FollowGroup follows a group to its end. It waits while the server is unreachable, since the group does not need it.
func FollowGroup(ctx context.Context, c *client.Client, g client.Group, progress io.Writer) (client.Group, error) {
	fmt.Fprintf(progress, "group %s of %d rollouts\n", g.ID, g.Size)

	f := followMembers(ctx, c)
	defer f.stop()

	shown := map[string]bool{}
	for id := g.ID; ; {
		showEnded(progress, g, shown)

		if g.Done() {
			return g, nil
		}

		f.follow(g.Members)

		if err := f.wait(ctx, g.Members); err != nil {
			fmt.Fprintf(progress,
				"the group continues; show it:  rolloutd show %[1]s   abort it:  rolloutd abort %[1]s\n",
				id)

			return g, err
		}

		next, err := c.Group(ctx, id)
		switch {
		case err == nil:
			g = next
		case ctx.Err() == nil && !fault.Is(err, fault.Unavailable):
			return g, err
		}
	}
}

// showEnded prints each member that has ended, once.
func showEnded(w io.Writer, g client.Group, shown map[string]bool) {
	for _, m := range g.Members {
		if m.Outcome != "" && !shown[m.RolloutID] {
			shown[m.RolloutID] = true
			fmt.Fprintf(w, "  %s  %s, reward %s\n", m.RolloutID, m.Outcome, rewardOf(m.Reward))
		}
	}
}

// GroupState writes the state of a running group.
func GroupState(w io.Writer, g client.Group) {
	fmt.Fprintf(w, "group %s is running: %d of %d rollouts have ended\n", g.ID, g.Finished(), g.Size)

	for _, m := range g.Members {
		if m.Outcome == "" {
			fmt.Fprintf(w, "  %s  running\n", m.RolloutID)
		}
	}

	showEnded(w, g, map[string]bool{})
}

func rewardOf(r *float64) string {
	if r == nil {
		return "none"
	}

	return fmt.Sprintf("%.4g", *r)
}

// GroupTable writes a group as a small table for people.
func GroupTable(w io.Writer, g client.Group) {
	// indents the later lines of a value
	const column = "            "

	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-9s %s\n", name, block(fmt.Sprintf(format, args...), column))
	}
	row("group", "%s", g.ID)
	row("outcome", "%s", g.Outcome)
	row("rewards", "%s", rewards(g.Members))

	if g.Statistics.N > 0 {
		row("mean", "%.4g ± %.4g", g.Statistics.Mean, g.Statistics.Std)
		row("pass@k", "%s", passAtK(g.PassAtK))
	}

	if g.Replaced > 0 {
		row("replaced", "%d rollouts that infrastructure lost", g.Replaced)
	}

	if g.Error != "" {
		row("error", "%s", g.Error)
	}
}

func rewards(members []rollout.Member) string {
	var all []string
	for _, m := range members {
		all = append(all, rewardOf(m.Reward))
	}

	return strings.Join(all, "  ")
}

func passAtK(estimates map[int]float64) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(estimates)) {
		all = append(all, fmt.Sprintf("%d: %.4g", k, estimates[k]))
	}

	return strings.Join(all, "  ")
}

// GroupExitCode is the exit code of a group: that of its first member which did not complete.
func GroupExitCode(g rollout.GroupState) int {
	for _, m := range g.Members {
		if code := ExitCode(m.Outcome); code != ExitOK {
			return code
		}
	}

	return ExitOK
}
