package daemon

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// silent is a backend that does not answer, empty one without sandboxes.
type (
	silent struct{}
	empty  struct{}
)

func (silent) List(ctx context.Context) ([]driver.Info, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (empty) List(ctx context.Context) ([]driver.Info, error) { return nil, ctx.Err() }

// A host answers in time while one of its backends does not, and has the room of the others.
func TestStatusBesideASilentBackend(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		account := host.NewAccount(rollout.Resources{})
		room := func(l host.Lister) *host.Capacity {
			return host.NewCapacity(host.CapacityOptions{Slots: 3, Account: account, Sandboxes: l})
		}
		p := &Presence{
			Record: store.HostRecord{ID: "h"},
			Rooms:  map[string]*host.Capacity{"docker": room(silent{}), "local": room(empty{})},
		}

		began := time.Now()
		h := p.Status(t.Context())
		require.Equal(t, 2*time.Second, time.Since(began), "the other does not ask it again")
		require.Contains(t, h.Error, "deadline exceeded")
		require.Equal(t, 3, h.Backends["local"].Slots)
	})
}

// The list of hosts says why no rollout starts on a host that works.
func TestStatusShowsTheProblem(t *testing.T) {
	t.Parallel()

	p := &Presence{Record: store.HostRecord{ID: "h"}, Problem: func() string { return "store is full" }}
	h := p.Status(t.Context())
	require.Equal(t, fleet.Running, h.State)
	require.Equal(t, "store is full", h.Error)
}
