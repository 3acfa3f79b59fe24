package daemon

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/catalog/probe"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// endpoints are those of the catalog, for the edge.
type endpoints struct {
	*probe.Shared

	trainer *gatewayapi.Trainer
}

// loadTime bounds a question to the gateway.
const loadTime = 5 * time.Second

func (d *Daemon) endpoints() endpoints {
	url := d.cfg.TrainerURL()
	if d.at.Trainer != "" {
		// its port may have been chosen at the start
		url = "http://" + d.at.Trainer
	}

	return endpoints{
		Shared:  probe.NewShared(d.modelLookup, func(name string) string { return d.cfg.ModelEnv[name] }),
		trainer: gatewayapi.NewTrainer(url, gatewayapi.TrainerToken(d.key)),
	}
}

// Load asks the gateway that `rolloutd upstream` asks; fault.Unavailable: it does not answer.
func (e endpoints) Load(ctx context.Context, name string) (catalog.Load, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()

	s, err := e.trainer.Upstream(ctx, name)
	if err != nil {
		return catalog.Load{}, err
	}

	return catalog.Load{
		Version: s.Version, InFlight: s.InFlight, Queued: s.Queued, PausedUntil: timeOrNil(s.Until), Busy: s.Busy,
		Unreachable: s.Unreachable,
		SilentSince: timeOrNil(s.SilentSince), Faults: s.Faults, Audit: auditOf(s.Audit),
	}, nil
}

// timeOrNil is nil for a time that is not set.
func timeOrNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}

	return &at
}

func auditOf(r *gatewayapi.AuditReport) *catalog.Audit {
	if r == nil {
		return nil
	}

	a := catalog.Audit{
		Turns:    r.Turns,
		Marked:   len(r.Marked),
		Skipped:  r.Skipped,
		Versions: make([]catalog.AuditedVersion, len(r.Versions)),
	}
	for i, v := range r.Versions {
		a.Versions[i] = catalog.AuditedVersion(v)
	}

	return &a
}
