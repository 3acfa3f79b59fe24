package cli

import (
	"cmp"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// maxDetail bounds a text that is printed, in characters.
const maxDetail = 400

// indent stands before the later lines of a text.
const indent = "             "

// detail prints texts and tool calls of the agent, and commands of the task.
func (f *Follower) detail(e rollout.Event) {
	switch e.Kind {
	case rollout.EventText, rollout.EventThinking:
		if t, ok := decodeEvent[rollout.TextEvent](e); ok {
			f.line(t.At, "  "+string(e.Kind)+": "+block(short(t.Text, maxDetail), indent))
		}
	case rollout.EventToolStart:
		if t, ok := decodeEvent[rollout.ToolEvent](e); ok {
			f.line(t.At, joined(" ", "  "+plain(t.Tool), block(short(callText(string(t.Input)), maxDetail), indent)))
		}
	case rollout.EventToolOutput, rollout.EventToolEnd:
		if t, ok := decodeEvent[rollout.ToolEvent](e); ok {
			f.line(
				t.At,
				joined(
					": ",
					fmt.Sprintf("  %s %s", plain(t.Tool), plain(cmp.Or(t.Status, "writes"))),
					block(short(cmp.Or(t.Error, t.Output), maxDetail), indent),
				),
			)
		}
	case rollout.EventCommand:
		if c, ok := decodeEvent[rollout.CommandEvent](e); ok && c.Result != nil {
			f.line(
				c.At,
				fmt.Sprintf("  %s command %d exited with %d: %s",
					plain(c.Stage), c.Number, c.Result.ExitCode, plain(short(c.Command, maxDetail))),
			)
		}
	case rollout.EventAttempt:
		if a, ok := decodeEvent[rollout.AttemptEvent](e); ok {
			f.line(a.At, joined(": ", fmt.Sprintf("  attempt %d: %s", a.Attempt, a.Outcome), plain(a.Error)))

			for _, c := range a.ResourceCauses {
				f.line(a.At, fmt.Sprintf("  attempt %d, %s: %s", a.Attempt, plain(string(c.Phase)), plain(c.String())))
			}
		}
	}
}

// joined joins two texts; it leaves the separator out if the second is empty.
func joined(separator, first, second string) string {
	if second == "" {
		return first
	}

	return first + separator + second
}
