package tier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// stopBudget is the default time for a tier to stop.
const stopBudget = 5 * time.Second

// Tier is a group of parts of a process. Tiers start in order, each when the one before is ready, and stop in reverse.
type Tier struct {
	Name string

	// longest time of its stop; 0: 5 s
	Budget time.Duration
	// Start adds each part to parts as soon as it runs, and returns when the tier is ready. The parts stop in
	// reverse, also if Start fails. ctx bounds the start only.
	Start func(ctx context.Context, parts *Parts) error
}

// Run starts the tiers, calls ready and waits until ctx ends (nil) or a tier ends (its error). It then
// stops all tiers that have started. The error includes tiers that did not stop in time.
func Run(ctx context.Context, log *slog.Logger, tiers []Tier, ready func()) error {
	up, err := start(ctx, log, tiers)
	if err == nil {
		ready()

		err = wait(ctx, up)
	}

	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		// a requested end, also during the start
		err = nil
	}

	return errors.Join(err, stop(context.WithoutCancel(ctx), log, up))
}

type upTier struct {
	Tier
	Parts
}

// start returns the tiers that have started, and the one that has failed, with its error.
func start(ctx context.Context, log *slog.Logger, tiers []Tier) ([]*upTier, error) {
	var up []*upTier

	for _, t := range tiers {
		if err := ctx.Err(); err != nil {
			return up, err
		}

		begin := time.Now()

		next := &upTier{Tier: t}
		up = append(up, next)

		if err := t.Start(ctx, &next.Parts); err != nil {
			return up, fmt.Errorf("start %s: %w", t.Name, err)
		}

		log.Debug("started", "tier", t.Name, "took", time.Since(begin))
	}

	return up, nil
}

// wait returns when ctx ends (nil) or the first part ends (its error).
func wait(ctx context.Context, up []*upTier) error {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)

	var watchers sync.WaitGroup

	for _, t := range up {
		for _, part := range t.all {
			watchers.Go(func() {
				select {
				case err := <-part.Done:
					end(fmt.Errorf("%s ended by itself: %w", t.Name, orUnexpected(err)))
				case <-running.Done():
				}
			})
		}
	}

	<-running.Done()
	watchers.Wait()

	if ctx.Err() != nil {
		return nil
	}

	return context.Cause(running)
}

func orUnexpected(err error) error {
	if err == nil {
		return errors.New("without an error")
	}

	return err
}

// stop stops the tiers in reverse order, each within its budget.
func stop(ctx context.Context, log *slog.Logger, up []*upTier) error {
	var errs []error

	for _, t := range slices.Backward(up) {
		if err := stopOne(ctx, t); err != nil {
			log.Warn("did not stop cleanly", "tier", t.Name, "error", err)
			errs = append(errs, fmt.Errorf("stop %s: %w", t.Name, err))
		}
	}

	return errors.Join(errs...)
}

func stopOne(ctx context.Context, t *upTier) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(t.Budget, stopBudget))
	defer cancel()

	return t.Stop(ctx)
}
