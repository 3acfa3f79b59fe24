package supervisor

import (
	"context"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// maxBroken bounds the reason of a broken turn in an event, in characters.
const maxBroken = 1000

// eventReporter writes launches, turns and the reasons for which the agent waits to the rollout's event log.
type eventReporter struct {
	log *eventlog.Log

	// calls that were read from the route's list
	turns   int
	waiting string
}

// report writes the changes since the previous call.
func (e *eventReporter) report(ctx context.Context, w *watch) {
	if e.log == nil {
		return
	}

	if w.state.Agent.Ready {
		n := w.state.Launch.Number
		e.log.Append(rollout.EventAgent, fmt.Sprintf("agent/%d", n), rollout.AgentEvent{
			Stamp:     e.log.Stamp(),
			Launch:    n,
			SessionID: w.state.Agent.SessionID,
		})
	}
	// reasons of consecutive tries often differ only by a port
	if why := w.state.waiting(); (why == "") != (e.waiting == "") {
		e.waiting = why
		e.log.Append(rollout.EventWaiting, "", rollout.WaitingEvent{Stamp: e.log.Stamp(), Waiting: why})
	}

	if w.state.Route.Calls > e.turns {
		e.reportTurns(ctx, w)
	}
}

// reportLast writes the turns up to the agent's end.
func (e *eventReporter) reportLast(ctx context.Context, w *watch) {
	if e.log != nil {
		e.reportTurns(ctx, w)
	}
}

// reportTurns writes the calls that have ended since the previous call. If the gateway does not answer, the
// next change tries again.
func (e *eventReporter) reportTurns(ctx context.Context, w *watch) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()

	for {
		turns, err := w.Gateway.Turns(ctx, w.job.SandboxID, e.turns)
		if err != nil {
			w.log.WarnContext(ctx, "turns not reported", "error", err)
			return
		}

		for _, t := range turns {
			e.turns++
			e.log.Append(rollout.EventTurn, fmt.Sprintf("turn/%d", e.turns), e.turn(t))
		}

		if len(turns) < gatewayapi.MaxTurns {
			return
		}
	}
}

func (e *eventReporter) turn(t gatewayapi.Turn) rollout.TurnEvent {
	stamp := e.log.Stamp()
	stamp.At = t.Ended

	return rollout.TurnEvent{
		Stamp:            stamp,
		Turn:             t.Turn,
		TurnKind:         t.Kind,
		Lineage:          text.HeadUTF8(t.Lineage, maxSessionID),
		PromptTokens:     t.PromptTokens,
		CompletionTokens: t.CompletionTokens,
		FinishReason:     t.FinishReason,
		LatencyS:         t.Ended.Sub(t.Began).Seconds(),
		Broken:           text.HeadUTF8(t.Broken, maxBroken),
	}
}
