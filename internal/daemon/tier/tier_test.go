package tier_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/daemon/tier"
)

// callLog records the calls of tiers in order.
type callLog struct {
	mu    sync.Mutex
	lines []string
}

func (d *callLog) add(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.lines = append(d.lines, line)
}

func (d *callLog) tier(name string, done <-chan error) tier.Tier {
	return tier.Tier{Name: name, Start: func(context.Context) (tier.Running, error) {
		d.add("start " + name)
		return tier.Running{Done: done, Stop: func(context.Context) error { d.add("stop " + name); return nil }}, nil
	}}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestTiersStopInReverse(t *testing.T) {
	t.Parallel()

	var d callLog

	ctx, cancel := context.WithCancel(t.Context())
	err := tier.Run(ctx, quiet(), []tier.Tier{d.tier("a", nil), d.tier("b", nil)}, func() { d.add("ready"); cancel() })
	require.NoError(t, err)
	require.Equal(t, []string{"start a", "start b", "ready", "stop b", "stop a"}, d.lines)
}

func TestTierThatDoesNotStartRollsBackTheOthers(t *testing.T) {
	t.Parallel()

	var d callLog

	broken := tier.Tier{Name: "b", Start: func(context.Context) (tier.Running, error) {
		return tier.Running{}, errors.New("no luck")
	}}
	err := tier.Run(
		t.Context(),
		quiet(),
		[]tier.Tier{d.tier("a", nil), broken, d.tier("c", nil)},
		func() { d.add("ready") },
	)
	require.ErrorContains(t, err, "start b: no luck")
	require.Equal(t, []string{"start a", "stop a"}, d.lines)
}

// Run reports the first cause once and stops the other tiers.
func TestFailedTierEndsTheProcessWithItsError(t *testing.T) {
	t.Parallel()

	var d callLog

	died := make(chan error, 1)
	err := tier.Run(
		t.Context(),
		quiet(),
		[]tier.Tier{d.tier("a", nil), d.tier("b", died)},
		func() { died <- errors.New("out of luck") },
	)
	require.EqualError(t, err, "b ended by itself: out of luck")
	require.Equal(t, []string{"start a", "start b", "stop b", "stop a"}, d.lines)
}

func TestInterruptedStartIsNoError(t *testing.T) {
	t.Parallel()

	var d callLog

	ctx, cancel := context.WithCancel(t.Context())
	slow := tier.Tier{Name: "slow", Start: func(ctx context.Context) (tier.Running, error) {
		cancel()
		return tier.Running{}, ctx.Err()
	}}
	require.NoError(t, tier.Run(ctx, quiet(), []tier.Tier{d.tier("a", nil), slow}, func() { d.add("ready") }))
	require.Equal(t, []string{"start a", "stop a"}, d.lines)
}

// A tier that exceeds its budget is reported and does not keep others from stopping.
func TestSlowStopIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d callLog

		ctx, cancel := context.WithCancel(t.Context())
		slow := tier.Tier{Name: "slow", Budget: time.Minute, Start: func(context.Context) (tier.Running, error) {
			return tier.Running{Stop: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, nil
		}}
		begin := time.Now()
		err := tier.Run(ctx, quiet(), []tier.Tier{d.tier("a", nil), slow}, cancel)
		require.ErrorContains(t, err, "stop slow")
		require.Equal(t, time.Minute, time.Since(begin))
		require.Equal(t, []string{"start a", "stop a"}, d.lines)
	})
}
