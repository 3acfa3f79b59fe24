package activities

import (
	"io"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Look is one look of RunAgent at its agent, for the table test of its verdict: most rows need minutes to come about.
type Look struct {
	Limits                rollout.Limits
	Launch                int
	Stuck                 string
	SinceFirst, SinceLast time.Duration // since the first and the current launch
	SinceStir, SinceSpent time.Duration // since something last changed, and since the budget was seen spent
	Away                  bool          // the gateway does not answer
	Agent                 agent.Status
	Route                 gateway.RouteStatus
}

// Verdict is what RunAgent would do: "go on", "relaunch", or "end" with an outcome or an error.
func Verdict(l Look) (do string, outcome rollout.Outcome, text string, err error) {
	now := time.Now()
	v := view{
		limits: l.Limits, launch: l.Launch, stuck: l.Stuck, now: now, first: now.Add(-l.SinceFirst), launched: now.Add(-l.SinceLast),
		alive: now.Add(-l.SinceStir), spent: now.Add(-l.SinceSpent), agent: l.Agent, route: l.Route,
	}
	if l.Away {
		v.away = now
	}
	got := v.verdict()
	return [...]string{goOn: "go on", relaunch: "relaunch", end: "end"}[got.step], got.outcome, got.text, got.err
}

// EndedPrefix is endedPrefix.
const EndedPrefix = endedPrefix

// FilesOf is filesOf, for fuzzing.
func FilesOf(r io.Reader) (texts map[string]string, extra []string, err error) {
	texts = map[string]string{}
	err = filesOf(r, texts, &extra)
	return texts, extra, err
}
