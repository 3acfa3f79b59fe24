package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/daemon/machine"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/host/hostapi"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Presence is the presence of this host. It implements hostapi.Self.
type Presence struct {
	// id, addresses and start of the host
	Record  store.HostRecord
	Version string

	// by the name of the backend
	Rooms map[string]*host.Capacity
	Drain *host.Drain

	// why rollouts do not start although the host works; "": none
	Problem func() string
	Store   *store.Store
	Log     *slog.Logger
}

// Status implements hostapi.Self.
func (p *Presence) Status(ctx context.Context) fleet.Host {
	h := fleet.Host{
		Name:      p.Record.ID,
		Version:   p.Version,
		Backends:  map[string]fleet.Room{},
		Load:      machine.Load(),
		CPUs:      runtime.NumCPU(),
		StartedAt: p.Record.StartedAt,
		SeenAt:    time.Now().UTC(),
	}
	for _, name := range slices.Sorted(maps.Keys(p.Rooms)) {
		room, err := lookAt(ctx, p.Rooms[name])
		if err != nil {
			h.Error = err.Error()
		}

		h.Backends[name] = room
	}

	h.State = hostapi.StateOf(h, p.Drain.On())
	// a pool waits for a drained host with an error
	if h.Error == "" && h.State == fleet.Running && p.Problem != nil {
		h.Error = p.Problem()
	}

	return h
}

// lookTime bounds the look at each backend: who asks for the status waits for some seconds.
const lookTime = 2 * time.Second

func lookAt(ctx context.Context, c *host.Capacity) (fleet.Room, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()

	return c.Room(ctx)
}

// Refresh implements hostapi.Self.
func (p *Presence) Refresh(ctx context.Context) error { return p.Drain.Refresh(ctx) }

// Announce writes the record of the host.
func (p *Presence) Announce(ctx context.Context) error {
	record := p.Record

	record.Status = p.Status(ctx)
	if err := hostapi.Announce(ctx, p.Store, record); err != nil {
		return fmt.Errorf("announce this host: %w", err)
	}

	return nil
}

// Run writes the record and reads the drain request at intervals until ctx ends.
func (p *Presence) Run(ctx context.Context) error {
	for clock.Sleep(ctx, hostapi.Interval) == nil {
		for _, do := range []func(context.Context) error{p.Refresh, p.Announce} {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				p.Log.WarnContext(ctx, "the record of this host was not renewed", "error", err)
			}
		}
	}

	return nil
}
