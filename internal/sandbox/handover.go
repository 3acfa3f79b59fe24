package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// HandsOver says whether the provider can give a living sandbox another id.
func (b *Backend) HandsOver() bool {
	_, ok := b.driver.(driver.Handover)
	return ok
}

// CreateIdle makes a sandbox of default size that takes only the CPU time that others leave, until it is handed over.
func (b *Backend) CreateIdle(ctx context.Context, id string, labels map[string]string) (*Sandbox, error) {
	return b.create(ctx, id, rollout.Sandbox{}, true, labels)
}

// HandOver gives the living sandbox from the id to, and the labels and sizes that a sandbox made with s has; see driver.Handover.
func (b *Backend) HandOver(ctx context.Context, from, to string, s rollout.Sandbox, labels map[string]string) (err error) {
	ctx, span := b.span(ctx, "sandbox.hand_over", to)
	defer func() { end(span, err) }()
	h, ok := b.driver.(driver.Handover)
	if !ok {
		return fault.New(fault.Conflict, "sandboxes of this backend cannot be handed over")
	}
	if err := checkID(to); err != nil {
		return err
	}
	spec := specOf(s, b.defaults)
	spec.Labels = labels
	if err := h.HandOver(ctx, from, to, spec); err != nil {
		return contextual(ctx, fmt.Errorf("hand over sandbox %q to %q: %w", from, to, err))
	}
	return nil
}

// Since is when the living sandbox began under its id, by this machine's clock.
func (s *Sandbox) Since(ctx context.Context) (time.Time, error) {
	if h, ok := s.backend.driver.(driver.Handover); ok {
		at, err := h.HandedOver(ctx, s.id)
		if err != nil || !at.IsZero() {
			return at, contextual(ctx, err)
		}
	}
	info, err := s.Info(ctx)
	return info.StartedAt, err
}
