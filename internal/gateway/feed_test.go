package gateway_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// routes have a status with only a version.
type routes map[string]*gateway.FeedVersion

func (r routes) Watched(id string) (*gateway.FeedVersion, func() (gatewayapi.RouteStatus, error), error) {
	v, ok := r[id]
	if !ok {
		return nil, nil, missing(id)
	}

	return v, func() (gatewayapi.RouteStatus, error) {
		if r[id] != v {
			return gatewayapi.RouteStatus{}, missing(id)
		}

		return gatewayapi.RouteStatus{ID: id, Version: v.Current()}, nil
	}, nil
}

func missing(id string) error { return fault.New(fault.NotFound, "no route %q", id) }

// next returns changes, which must be available at once.
func next(t *testing.T, f *gateway.Feed) []gatewayapi.WatchChange {
	t.Helper()

	began := time.Now()
	changes, err := f.Next(t.Context())
	require.NoError(t, err)
	require.Zero(t, time.Since(began))

	return changes
}

// none requires that there is no change for the duration d.
func none(t *testing.T, f *gateway.Feed, d time.Duration) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()

	changes, err := f.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "%v", changes)
}

// A reader gets the latest status of each route that it does not know yet, once, in the order of the changes.
func TestLatestStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := gateway.NewFeedVersion(), gateway.NewFeedVersion()

		f := gateway.NewFeed(routes{"a": a, "b": b})
		defer f.Close()

		require.NoError(t, f.Add(1, "a", a.Current(), 0))
		require.NoError(t, f.Add(2, "b", 0, 0))
		require.NoError(t, f.Add(3, "c", 0, 0))

		for range 1000 {
			a.Note()
		}

		changes := next(t, f)
		require.Len(t, changes, 3)
		require.Equal(t, gatewayapi.RouteStatus{ID: "b", Version: b.Current()}, *changes[0].Status)
		require.EqualValues(t, 3, changes[1].Watch)
		require.Equal(t, fault.NotFound, changes[1].Failure.Kind)
		require.Equal(t, gatewayapi.RouteStatus{ID: "a", Version: a.Current()}, *changes[2].Status)
		none(t, f, time.Hour)
		f.Remove(1)
		a.Note()
		b.Note()

		changes = next(t, f)
		require.Len(t, changes, 1)
		require.EqualValues(t, 2, changes[0].Watch)
	})
}

// After a change, a watch gets no further change for its pause. Other watches of the route do not wait.
func TestFeedPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := gateway.NewFeedVersion()

		f := gateway.NewFeed(routes{"a": a})
		defer f.Close()

		require.NoError(t, f.Add(1, "a", 0, time.Second))
		require.Len(t, next(t, f), 1)
		time.Sleep(400 * time.Millisecond)
		a.Note()
		none(t, f, 500*time.Millisecond)
		a.Note()
		require.NoError(t, f.Add(2, "a", 0, 0))
		require.EqualValues(t, 2, next(t, f)[0].Watch)
		changes, err := f.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, a.Current(), changes[0].Status.Version)
		time.Sleep(time.Second)
		a.Note()
		require.Len(t, next(t, f), 2)
	})
}

// A watch ends with its route. Another route may have the same id by then.
func TestClosedRoute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		old := gateway.NewFeedVersion()
		all := routes{"a": old}

		f := gateway.NewFeed(all)
		defer f.Close()

		require.NoError(t, f.Add(1, "a", old.Current(), 0))

		all["a"] = gateway.NewFeedVersion()

		old.Note()

		changes := next(t, f)
		require.Len(t, changes, 1)
		require.Equal(t, fault.NotFound, changes[0].Failure.Kind)
		old.Note()
		none(t, f, time.Hour)
		require.NoError(t, f.Add(1, "a", 0, 0))
		require.NotNil(t, next(t, f)[0].Status)
	})
}

// The number of watches is bounded, including watches of missing routes.
func TestBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 1 << 14

		f, n := gateway.NewFeed(routes{}), uint64(0)
		defer f.Close()

		var err error
		for ; err == nil; n++ {
			err = f.Add(n, "a", 0, 0)
		}

		require.Equal(t, fault.Exhausted, fault.KindOf(err))
		require.EqualValues(t, most+1, n)
		require.Equal(t, fault.Conflict, fault.KindOf(f.Add(0, "a", 0, 0)))
		require.Len(t, next(t, f), most)
		require.NoError(t, f.Add(n, "a", 0, 0), "the others are over")
	})
}
