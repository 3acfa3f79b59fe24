package proxy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// A caller that waits for a change gets the call's begin, its end and the route's end, each without asking in between.
func TestChangedWaitsForAChange(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	hung := newHanging(goodReply[:200], goodReply[200:])
	url := h.open(t, h.route(newEngine(t, hung.serve).URL))
	next := func(s gateway.RouteStatus, until func(gateway.RouteStatus) bool) gateway.RouteStatus {
		for ok := true; ok; ok = !until(s) {
			before := s.Version
			var err error
			s, err = h.client.Changed(t.Context(), "r1.1", before, patience)
			require.NoError(t, err)
			require.NotEqual(t, before, s.Version, "it returns at a change alone")
		}
		return s
	}
	s := next(gateway.RouteStatus{}, func(s gateway.RouteStatus) bool { return s.Attached })
	answer := later(t, url, "c1", streamed)
	s = next(s, func(s gateway.RouteStatus) bool { return s.InFlight == 1 })
	<-hung.begun
	close(hung.release)
	s = next(s, func(s gateway.RouteStatus) bool { return s.InFlight == 0 })
	require.Equal(t, 1, s.Turns)
	require.NoError(t, (<-answer).err)
	require.NoError(t, h.client.End(t.Context(), "r1.1", "enough"))
	s = next(s, func(s gateway.RouteStatus) bool { return s.Ended != "" })
	require.Equal(t, "enough", s.Ended)
}

// What waits does not hold a gateway up that stops, and a version from before a restart is not current after it.
func TestChangedEndsWithTheGateway(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.open(t, h.route("http://127.0.0.1:9"))
	before := h.status(t, "r1.1")
	out := make(chan error, 1)
	go func() {
		_, err := h.client.Changed(t.Context(), "r1.1", before.Version, patience)
		out <- err
	}()
	h.stop()
	<-out
	h.start(t)
	after, err := h.client.Changed(t.Context(), "r1.1", before.Version, patience)
	require.NoError(t, err)
	require.NotEqual(t, before.Version, after.Version)
}

func TestChangedOfAMissingRoute(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	_, err := h.client.Changed(t.Context(), "r1.1", 0, patience)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}
