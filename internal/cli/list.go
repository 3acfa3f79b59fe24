package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// List writes rollouts as a table, a line each. Ids and names are the clients' own words, so they are made plain.
func List(w io.Writer, rollouts []rollout.State, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROLLOUT\tTASK\tSTATE\tREWARD\tTOOK\tSTARTED")
	for _, s := range rollouts {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", plain(s.ID), orDash(short(plain(s.TaskID), widest)), standing(s), points(s.Reward),
			took(s, now), s.StartedAt.Local().Format(time.DateTime))
	}
	_ = t.Flush() // a terminal that is gone cannot be told
}

// widest is how much of a name the table shows: one long name would push the other columns of every line off the screen.
const widest = 40

// short is text of at most n characters.
func short(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// standing is a rollout's outcome, or its phase while it has none.
func standing(s rollout.State) string {
	if s.Outcome != "" {
		return string(s.Outcome)
	}
	return orDash(string(s.Phase))
}

func points(reward *float64) string {
	if reward == nil {
		return "-"
	}
	return fmt.Sprintf("%.4g", *reward)
}

// took is the time from the rollout's start to its end, or to now.
func took(s rollout.State, now time.Time) string {
	end := now
	if s.FinishedAt != nil {
		end = *s.FinishedAt
	}
	return max(0, end.Sub(s.StartedAt)).Round(time.Second).String()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
