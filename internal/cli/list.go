package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// List writes rollouts as a table, one line each. Clients choose ids and names, so control characters in
// them are escaped.
func List(w io.Writer, rollouts []rollout.Listed, now time.Time) {
	t := NewColumns(w, "ROLLOUT", "TASK", "STATE", "ATTEMPT", "TURNS", "REWARD", "TOOK", "STARTED")

	for _, s := range rollouts {
		t.Row(plain(s.ID), orDash(short(plain(s.TaskID), maxName)), outcomeOrPhase(s), number(s.Attempt), number(s.Turns),
			formatReward(s.Reward), duration(s.StartedAt, s.FinishedAt, now), s.StartedAt.Local().Format(time.DateTime))
	}

	t.Flush()
	waits(w, rollouts)

	for _, s := range rollouts {
		if s.Match != "" {
			fmt.Fprintf(w, "%s: %s\n", plain(s.ID), plain(strings.Join(strings.Fields(s.Match), " ")))
		}
	}
}

// Groups writes groups of rollouts as a table, one line each.
func Groups(w io.Writer, groups []rollout.ListedGroup, now time.Time) {
	t := NewColumns(w, "GROUP", "TASK", "STATE", "SIZE", "REPLACED", "MEAN REWARD", "TOOK", "STARTED")

	for _, g := range groups {
		t.Row(plain(g.ID), orDash(short(plain(g.TaskID), maxName)), cmp.Or(string(g.Outcome), rollout.StatusRunning),
			number(g.Size), number(g.Replaced), formatReward(g.MeanReward), duration(g.StartedAt, g.FinishedAt, now),
			g.StartedAt.Local().Format(time.DateTime))
	}

	t.Flush()
}

// waits writes why rollouts wait, each reason once. Many rollouts usually wait for one endpoint.
func waits(w io.Writer, rollouts []rollout.Listed) {
	var reasons []string

	waiting := map[string][]string{}

	for _, s := range rollouts {
		if s.Waiting == "" {
			continue
		}

		if waiting[s.Waiting] == nil {
			reasons = append(reasons, s.Waiting)
		}

		waiting[s.Waiting] = append(waiting[s.Waiting], s.ID)
	}

	for _, reason := range reasons {
		ids := waiting[reason]

		who := plain(ids[0])
		if len(ids) > 1 {
			who = fmt.Sprintf("%s and %d more", who, len(ids)-1)
		}

		fmt.Fprintf(w, "waiting: %s: %s\n", who, plain(reason))
	}
}

// maxName bounds a name in the table, in characters: a long name widens its column in every line.
const maxName = 40

// short cuts text to at most n characters.
func short(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}

	return string([]rune(text)[:n-1]) + "…"
}

// outcomeOrPhase returns a rollout's outcome, or its phase until it has one.
func outcomeOrPhase(s rollout.Listed) string {
	if s.Outcome != "" {
		return string(s.Outcome)
	}

	return orDash(string(s.Phase))
}

func formatReward(reward *float64) string {
	if reward == nil {
		return "-"
	}

	return fmt.Sprintf("%.4g", *reward)
}

// number formats a number of a list; "-" for one that the list does not know.
func number(n *int) string {
	if n == nil {
		return "-"
	}

	return strconv.Itoa(*n)
}

// duration is the time from a start to its end, or to now.
func duration(start time.Time, end *time.Time, now time.Time) string {
	if end != nil {
		now = *end
	}

	return max(0, now.Sub(start)).Round(time.Second).String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}

	return s
}
