package tools

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// limits are the server's defaults, changed by what the caller asks and then completed, so that a client which knows only
// agent_timeout_s still gets a set that nests.
func (t *Table) limits(a RolloutArgs) rollout.Limits {
	l := t.o.Limits
	l.Agent = seconds(a.AgentTimeoutS)
	for _, inner := range []*time.Duration{&l.Call, &l.FirstCall, &l.Quiet} {
		if *inner >= l.Agent {
			*inner = 0 // the server's, for longer agents; here it is derived
		}
	}
	if ask := a.Limits; ask != nil {
		apply(&l, *ask)
	}
	return l.Filled()
}

func apply(l *rollout.Limits, ask LimitArgs) {
	for to, s := range map[*time.Duration]*float64{
		&l.Call: ask.CallS, &l.Setup: ask.SetupS, &l.Verifier: ask.VerifierS, &l.Collect: ask.CollectS,
		&l.Rollout: ask.RolloutS, &l.Queue: ask.QueueS, &l.FirstCall: ask.FirstCallS, &l.Quiet: ask.QuietS,
	} {
		if s != nil {
			*to = seconds(*s)
		}
	}
	set(&l.Attempts, ask.Attempts)
	set(&l.Turns, ask.Turns)
	set(&l.PromptTokens, ask.PromptTokens)
	set(&l.CompletionTokens, ask.CompletionTokens)
	set(&l.Cost, ask.Cost)
}

func set[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
