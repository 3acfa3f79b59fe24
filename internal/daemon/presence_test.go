package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/store"
)

// The list of hosts says why no rollout starts on a host that works.
func TestStatusShowsTheProblem(t *testing.T) {
	t.Parallel()

	p := &Presence{Record: store.HostRecord{ID: "h"}, Problem: func() string { return "store is full" }}
	h := p.Status(t.Context())
	require.Equal(t, fleet.Running, h.State)
	require.Equal(t, "store is full", h.Error)
}
