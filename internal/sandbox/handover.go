package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// HandsOver reports whether the provider can change the id of a living sandbox.
func (b *Backend) HandsOver() bool {
	_, ok := b.driver.(driver.Handover)
	return ok
}

// CreateIdle creates a sandbox of default size for a later handover. Until then it gets only CPU time that
// others leave.
func (b *Backend) CreateIdle(ctx context.Context, id string, labels map[string]string) (*Sandbox, error) {
	spec := specOf(rollout.Sandbox{}, b.defaults)
	spec.Labels, spec.Idle = labels, true

	return b.create(ctx, id, spec)
}

// HandOver changes the id of the living sandbox from to to, with the labels and sizes for s; see driver.Handover.
func (b *Backend) HandOver(
	ctx context.Context,
	from, to string,
	s rollout.Sandbox,
	labels map[string]string,
) (err error) {
	ctx, span := b.span(ctx, "sandbox.hand_over", to)
	defer func() { endSpan(span, err) }()

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

// Since returns when the living sandbox began under its id, by this machine's clock.
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
