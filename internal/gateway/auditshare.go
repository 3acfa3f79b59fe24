package gateway

import (
	"context"
	"math/rand/v2"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

const (
	// maxOffered bounds the turns that wait for the background audit; others are not scored.
	maxOffered = 64
	// maxBackground is the number of turns after which a background report begins anew.
	maxBackground = 1000
)

// skipBusy: calls wait for the endpoint, or it takes no new rollouts.
const skipBusy = "busy"

// offer hands a turn to the background audit, unless too many wait.
func (a *audits) offer(c candidate) {
	select {
	case a.offered <- c:
	default:
	}
}

// sampleAudit offers a share of the recorded turns of the agent to the background audit.
func (r *route) sampleAudit(c *call) {
	if r.trace == nil || !isTurn(c.request.Kind) || rand.Float64() >= r.auditShare {
		return
	}

	if e, ok := r.trace.Find(c.id); ok {
		r.offerAudit(candidate{r, e})
	}
}

// auditOffered scores offered turns again, one at a time, until ctx ends. Calls of agents come first: it skips turns of
// an endpoint for which calls wait.
func (s *Server) auditOffered(ctx context.Context) {
	runs := map[string]*auditRun{}

	for {
		select {
		case <-ctx.Done():
			return
		case c := <-s.audits.offered:
			s.auditOne(ctx, runs, c)
		}
	}
}

func (s *Server) auditOne(ctx context.Context, runs map[string]*auditRun, c candidate) {
	name := c.Model.Upstream()

	run := runs[name]
	if run == nil || run.numChecked() >= maxBackground {
		run = newAuditRun(gatewayapi.AuditRequest{
			Limit: defaultAuditLimit, Tokens: defaultAuditTokens, Drop: s.options.AuditDrop,
		})
		// clients name upstreams
		if len(runs) >= maxAudits {
			clear(runs)
		}

		runs[name] = run
	}

	if status := s.upstreams.StatusOf(name); status.Queued > 0 || status.Busy != "" {
		run.skip(c, skipBusy)
	} else {
		run.turn(ctx, c)
	}

	s.audits.storeReport(name, run.finish())
}

// numChecked returns the number of turns that were scored or skipped.
func (a *auditRun) numChecked() int {
	n := a.report.Turns
	for _, skipped := range a.report.Skipped {
		n += skipped
	}

	return n
}
