package gateway

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rolloutd/rolloutd/internal/gateway/experts"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// expertBook knows whose routed experts are recorded, so that a call adds only the rows of its own tokens: the experts
// of a token depend on no later one. It is safe for concurrent use; the zero value asks for none.
type expertBook struct {
	// whether calls ask for routed experts
	wanted bool

	// whether those recorded before a restart were added
	regrown sync.Once

	mu sync.Mutex

	// the latest last
	calls []*expertCall
}

// maxExpertCalls bounds the calls of a route that others may continue: conversations that go on at once, and the place
// to which an agent returns.
const maxExpertCalls = 8

// expertCall is a recorded call. Each of its tokens has a row, but for the last.
type expertCall struct {
	turn int

	// ids of prompt and completion
	ids []int32

	width int
}

// shared returns how many first rows of a prompt the call has.
func (e *expertCall) shared(prompt []int32) int {
	if e == nil {
		return 0
	}

	return min(sequence.CommonPrefix(e.ids, prompt), len(e.ids)-1)
}

// find returns the call that has most of a prompt's rows; nil: none has any.
func (b *expertBook) find(prompt []int32) *expertCall {
	b.mu.Lock()
	defer b.mu.Unlock()

	var best *expertCall

	for _, e := range b.calls {
		if e.shared(prompt) > best.shared(prompt) {
			best = e
		}
	}

	return best
}

// add adds a recorded call, in the place of the one that it continues.
func (b *expertBook) add(rec *trace.Record) {
	if rec.Experts == nil || rec.Experts.Rows == 0 {
		return
	}

	next := &expertCall{
		turn: rec.Turn, ids: slices.Concat(rec.PromptTokenIDs, rec.TokenIDs), width: rec.Experts.Width,
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	b.calls = slices.DeleteFunc(b.calls, func(e *expertCall) bool { return next.shared(e.ids) >= len(e.ids)-1 })
	if b.calls = append(b.calls, next); len(b.calls) > maxExpertCalls {
		b.calls = b.calls[1:]
	}
}

// regrowExperts adds the recorded calls, after a restart.
func (r *route) regrowExperts() {
	for _, e := range r.trace.Entries() {
		if !e.HasExperts() {
			continue
		}

		rec, err := r.trace.Read(e)
		if err != nil {
			r.log.Error("routed experts not continued", "turn", e.Turn, "error", err)
			continue
		}

		r.experts.add(rec)
	}
}

// askExperts leaves the rows out of a call that are recorded, where it sends its prompt as ids.
func (r *route) askExperts(c *call) {
	if !c.request.Experts.Asked {
		return
	}

	r.experts.regrown.Do(r.regrowExperts)

	prompt := c.request.PromptOf()
	c.expertBase = r.experts.find(prompt)
	c.request.Experts.From = c.expertBase.shared(prompt)
}

// keepExperts adds the routed experts of a reply to its record, or why it has none.
func (r *route) keepExperts(c *call, res *upstream.Result, rec *trace.Record) {
	if !c.request.Experts.Asked || res.Problem != nil {
		return
	}

	base := c.expertBase
	if c.request.Experts.From == 0 {
		base = r.experts.find(rec.PromptTokenIDs)
	}

	own, start, err := ownExperts(res.Replay.Experts, rec, base, c.request.Experts.From)
	if err != nil {
		rec.Experts = &rollout.RoutedExperts{Missing: err.Error()}
		return
	}

	rec.ExpertRows = own.Data
	rec.Experts = &rollout.RoutedExperts{
		Start: start, Rows: own.Count, Width: own.Width, Layers: own.Layers, TopK: own.TopK, Type: own.Type,
	}

	if start > 0 {
		rec.Experts.Base = base.turn
	}
}

// ownExperts returns the rows of a reply that base lacks, and the token of the first of them. The endpoint was asked to
// leave out the rows before from.
func ownExperts(text []byte, rec *trace.Record, base *expertCall, from int) (experts.Rows, int, error) {
	switch {
	case len(text) == 0:
		return experts.Rows{}, 0, errors.New("the endpoint gave none")
	case len(rec.PromptTokenIDs) == 0 || len(rec.TokenIDs) == 0:
		return experts.Rows{}, 0, errors.New("the reply has no token ids")
	}

	width, known := 0, base.shared(rec.PromptTokenIDs)
	if known > 0 {
		width = base.width
	}

	all := len(rec.PromptTokenIDs) + len(rec.TokenIDs) - 1

	rows, err := experts.Decode(text, all, width)
	if err != nil {
		return experts.Rows{}, 0, fmt.Errorf("unreadable: %w", err)
	}

	// an engine may not know the member that leaves rows out
	first := all - rows.Count
	if first != 0 && first != from || first > known {
		return experts.Rows{}, 0, fmt.Errorf("%d rows for %d tokens, of which %d were known", rows.Count, all+1, known)
	}

	return rows.From(known - first), known, nil
}
