package result

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
	"github.com/rolloutd/rolloutd/internal/trajectory"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/turns"
)

// addTrace adds the compact turns and their sums to the result. Only one whole turn is in memory at a time.
func (c *Composer) addTrace(ctx context.Context, res *rollout.Result) error {
	r, err := c.Store.Reader(ctx, c.key(store.Trace))
	if err != nil {
		return fault.Ignore(err, fault.NotFound)
	}
	defer r.Close()

	sum := sha256.New()

	log, err := turnsOf(io.TeeReader(r, sum), c.Head.Messages, res)
	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "trace of attempt %d", c.Target.Attempt)
	}

	res.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	res.ProxyLogTail = text.Tail(log, logTail)

	return nil
}

// turnsOf reads JSON lines of rollout.Turn to the end, and returns one line for people about each turn.
func turnsOf(r io.Reader, messages rollout.MessagesMode, res *rollout.Result) (string, error) {
	var log strings.Builder

	compact, untrained := trajectory.Compactor{Messages: messages}, sequence.Untrained{}
	err := turns.Each(r, turns.Unbounded, func(t *rollout.Turn) error {
		res.ProxyTurns = append(res.ProxyTurns, compact.Compact(*t))
		count(&res.Usage, *t)
		untrained.Add(t)

		for _, fix := range t.ParamFixes {
			addFix(res, fix)
		}

		log.WriteString(lineOf(*t))

		return nil
	})

	res.Untrained = untrained.String()

	return log.String(), err
}

func addFix(res *rollout.Result, fix string) {
	if !slices.Contains(res.ParamFixes, fix) {
		res.ParamFixes = append(res.ParamFixes, fix)
	}
}

// count adds a turn to the usage: tokens of complete replies only, the cost of all calls. As in the
// gateway's budgets, only the agent's own calls count as turns.
func count(u *rollout.Usage, t rollout.Turn) {
	u.CostUSD += t.Usage.CostUSD
	if t.Broken != "" {
		return
	}

	if t.Kind == rollout.KindAgent || t.Kind == rollout.KindSubagent {
		u.Turns++
	}

	u.PromptTokens += t.Usage.PromptTokens
	u.CachedPromptTokens += t.Usage.CachedPromptTokens
	u.CompletionTokens += t.Usage.CompletionTokens
}

func lineOf(t rollout.Turn) string {
	end := t.FinishReason
	if t.Broken != "" {
		end = "broken: " + t.Broken
	}

	return fmt.Sprintf("turn %d %s: status %d, %s, %d+%d tokens, %.2fs\n",
		t.Turn, t.Kind, t.UpstreamStatus, end, t.Usage.PromptTokens, t.Usage.CompletionTokens, t.LatencyS)
}
