package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/continuation"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
)

const (
	// leavesTime bounds the audit of a rollout's conversations. The reader of its trace waits.
	leavesTime = 10 * time.Second
	// maxLeaves bounds the audited conversations of a rollout, the latest.
	maxLeaves = 64
)

// auditLeaves compares the last prompt of each conversation that was continued by ids with the template's, once the
// rollout has ended: on the way only some of them were. A turn whose prompt differs has a flaw. What the endpoint does
// not answer in time remains unknown.
func (r *route) auditLeaves(ctx context.Context) {
	if !r.endedByIDs() {
		return
	}

	r.regrown.Do(r.regrow)

	ctx, cancel := context.WithTimeout(ctx, leavesTime)
	defer cancel()

	leaves := r.forest.Leaves()
	slices.Reverse(leaves)

	for n, leaf := range leaves {
		result := auditSkipped
		if n < maxLeaves {
			result = r.auditLeaf(ctx, leaf)
		}

		r.report.conversations.WithLabelValues(r.Model.Label(), result).Inc()
	}
}

// endedByIDs reports whether the rollout has ended and made a call by ids.
func (r *route) endedByIDs() bool {
	if r.trace == nil || r.continuation == rollout.ContinuationMessages {
		return false
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	return r.journal.Ended != "" && r.journal.PromptIDs != ""
}

// auditLeaf audits one conversation and returns the result for the metrics.
func (r *route) auditLeaf(ctx context.Context, leaf continuation.Leaf) string {
	if ctx.Err() != nil || r.paused() != "" || r.admission.Outage() != "" {
		return auditSkipped
	}

	err := r.compareLeaf(ctx, leaf)

	switch {
	case err == nil:
		return auditFits
	case continuation.ReasonOf(err) == continuation.UnlikeTemplate:
		r.noteUnlike(leaf.Turn)
		return auditMarked
	default:
		r.log.Info("conversation not audited", "turn", leaf.Turn, "error", err)
		return auditSkipped
	}
}

func (r *route) compareLeaf(ctx context.Context, leaf continuation.Leaf) error {
	entries := r.trace.Entries()

	at := slices.IndexFunc(entries, func(e trace.Entry) bool { return e.Turn == leaf.Turn })
	if at < 0 {
		return fault.New(fault.NotFound, "turn %d has no record", leaf.Turn)
	}

	rec, err := r.trace.Read(entries[at])
	if err != nil {
		return err
	}

	render, err := r.renderOf(&dialect.Request{Body: rec.Request})
	if err != nil {
		return err
	}

	_, messages := promptParts(rec.Request)

	return r.forest.AuditLeaf(ctx, render, leaf, messages)
}

// noteUnlike stores that the prompt of a turn is not the template's.
func (r *route) noteUnlike(turn int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if !slices.Contains(r.journal.Unlike, turn) {
		r.journal.Unlike = append(r.journal.Unlike, turn)
		r.saveOrLog("prompt that is not the template's")
	}
}
