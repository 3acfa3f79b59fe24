package tier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// stopBudget is the default time for a tier to stop.
const stopBudget = 5 * time.Second

// Tier is one part of a process. Tiers start in order, each when the one before is ready, and stop in reverse.
type Tier struct {
	Name string

	// for its stop; 0: 5 s
	Budget time.Duration
	// Start returns when the tier is ready. ctx bounds the start only.
	Start func(ctx context.Context) (Running, error)
}

// Running is a tier that has started.
type Running struct {
	// Stop stops the tier within ctx; nil: nothing to stop.
	Stop func(ctx context.Context) error
	// Done receives the error of a tier that ends by itself; nil: it never does. It is not read after Stop.
	Done <-chan error
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
	Running
}

// start returns the tiers that have started, with the error of one that has not.
func start(ctx context.Context, log *slog.Logger, tiers []Tier) ([]upTier, error) {
	var up []upTier

	for _, t := range tiers {
		if err := ctx.Err(); err != nil {
			return up, err
		}

		begin := time.Now()

		r, err := t.Start(ctx)
		if err != nil {
			return up, fmt.Errorf("start %s: %w", t.Name, err)
		}

		log.Debug("started", "tier", t.Name, "took", time.Since(begin))
		up = append(up, upTier{t, r})
	}

	return up, nil
}

// wait returns when ctx ends or the first tier ends.
func wait(ctx context.Context, up []upTier) error {
	ctx, cancel := context.WithCancel(ctx)
	first := make(chan error, len(up))

	var watchers sync.WaitGroup

	for _, t := range up {
		if t.Done == nil {
			continue
		}

		watchers.Go(func() {
			select {
			case err := <-t.Done:
				first <- fmt.Errorf("%s ended by itself: %w", t.Name, orUnexpected(err))
			case <-ctx.Done():
			}
		})
	}

	defer watchers.Wait()
	defer cancel()

	select {
	case err := <-first:
		return err
	case <-ctx.Done():
		return nil
	}
}

func orUnexpected(err error) error {
	if err == nil {
		return errors.New("without an error")
	}

	return err
}

// stop stops the tiers in reverse order, each within its budget.
func stop(ctx context.Context, log *slog.Logger, up []upTier) error {
	var errs []error

	for i := len(up) - 1; i >= 0; i-- {
		if t := up[i]; t.Stop != nil {
			if err := stopOne(ctx, t); err != nil {
				log.Warn("did not stop cleanly", "tier", t.Name, "error", err)
				errs = append(errs, fmt.Errorf("stop %s: %w", t.Name, err))
			}
		}
	}

	return errors.Join(errs...)
}

func stopOne(ctx context.Context, t upTier) error {
	budget := t.Budget
	if budget == 0 {
		budget = stopBudget
	}

	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()

	return t.Stop(ctx)
}
