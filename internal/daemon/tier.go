package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// stopBudget is how long a tier may take to stop when it does not say.
const stopBudget = 5 * time.Second

// Tier is one part of a process. Tiers start in order, each when the one before is ready, and stop in reverse.
type Tier struct {
	Name   string
	Budget time.Duration // for its stop; 0: 5 s
	// Start returns when the tier is ready for work. ctx bounds the start alone.
	Start func(ctx context.Context) (Running, error)
}

// Running is a tier that has started.
type Running struct {
	// Stop ends the tier within ctx; nil: nothing to end.
	Stop func(ctx context.Context) error
	// Done gets the error of a tier that ends by itself; nil: it cannot. It is not read after Stop.
	Done <-chan error
}

// Run starts the tiers, calls ready, and keeps them up until ctx ends (nil) or one of them dies (its error). It stops what it
// has started, whatever happened; what could not be stopped in time is part of the error.
func Run(ctx context.Context, log *slog.Logger, tiers []Tier, ready func()) error {
	up, err := start(ctx, log, tiers)
	if err == nil {
		ready()
		err = wait(ctx, up)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil // asked to end, also where that was amid the start
	}
	return errors.Join(err, stop(context.WithoutCancel(ctx), log, up))
}

type upTier struct {
	Tier
	Running
}

// start returns the tiers that are up, also where one of them did not start.
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

// wait returns when ctx ends or the first tier dies.
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

// stop ends the tiers in reverse, each within its own budget.
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
