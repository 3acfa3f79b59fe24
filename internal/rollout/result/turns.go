package result

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/indexstore"
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
	index := c.newIndex(ctx)

	log, err := turnsOf(io.TeeReader(r, sum), c.Head.Messages, res, index.add)
	index.finish(ctx, err)

	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "trace of attempt %d", c.Target.Attempt)
	}

	res.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	res.ProxyLogTail = text.Tail(log, logTail)

	return nil
}

// turnsOf reads JSON lines of rollout.Turn to the end, calls also with each, and returns one line for people about each.
func turnsOf(
	r io.Reader,
	messages rollout.MessagesMode,
	res *rollout.Result,
	also func(*rollout.Turn),
) (string, error) {
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
		also(t)

		return nil
	})

	res.Untrained = untrained.String()

	return log.String(), err
}

// index makes the index of a long trace while it is read. Without it the first reader of the trace makes it, so that
// its errors are logged only.
type index struct {
	// nil: there is nothing to make
	builder *indexstore.Builder
	logger  *slog.Logger
	err     error
}

func (c *Composer) newIndex(ctx context.Context) *index {
	builder, err := indexstore.NewBuilder(ctx, c.Store, c.key(store.Trace))
	if err != nil {
		c.Logger.WarnContext(ctx, "the trace has no index", "kind", fault.KindOf(err), "error", err)
	}

	return &index{builder: builder, logger: c.Logger}
}

func (i *index) add(t *rollout.Turn) {
	if i.builder != nil && i.err == nil {
		i.err = i.builder.Add(t)
	}
}

// finish keeps the index, unless the trace was not read to its end.
func (i *index) finish(ctx context.Context, err error) {
	if i.builder == nil {
		return
	}

	if err := i.builder.Finish(cmp.Or(err, i.err)); err != nil {
		i.logger.WarnContext(ctx, "the trace has no index", "kind", fault.KindOf(err), "error", err)
	}
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
