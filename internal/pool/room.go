package pool

import (
	"cmp"
	"slices"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// room is a group with a count, and the state of its hosts.
type room struct {
	name string

	// names, of the allocations that Nomad wants to run
	hosts []string

	// slots
	free, used int
	outdated   bool

	// all its hosts are lost, or take no work
	lost bool

	// all hosts are drained, by the pool or an operator
	leaving bool

	// leaving, and without rollouts
	empty bool

	// leaving because the pool drained it
	ours bool
}

func (o Observation) room(g Group) room {
	r := room{
		name:     g.Name,
		outdated: g.Outdated,
		leaving:  len(g.Allocs) > 0,
		empty:    true,
		ours:     true,
		lost:     len(g.Allocs) > 0,
	}
	for _, a := range g.Allocs {
		name := HostName(a.ID)
		h, known := o.Hosts[name]
		r.hosts = append(r.hosts, name)
		drained := slices.Contains(o.Last.Leaving, name)
		r.ours = r.ours && drained

		switch {
		case !known: // the host starts, and reads its mark before it takes a sandbox
			r.leaving, r.lost, r.empty = r.leaving && drained, false, r.empty && a.State == AllocPending
			if !drained {
				r.free += o.Spec.Slots
			}
		case h.State == fleet.Lost, h.State == fleet.Refused:
			r.leaving = r.leaving && drained
		case h.State == fleet.Drained:
			r.lost, r.empty = false, r.empty && h.Error == ""
		case h.State == fleet.Draining:
			r.lost, r.empty = false, false
		default:
			// the host has not read its mark yet
			r.leaving, r.lost = r.leaving && drained, false
			rollouts := h.Backends[o.Spec.backend()]
			r.free += max(0, rollouts.Slots-rollouts.Used)
			r.empty = false
		}

		r.used += h.Backends[o.Spec.backend()].Used
	}

	if len(g.Allocs) == 0 {
		// Nomad is about to place it
		r.free = o.Spec.Slots
	}

	return r
}

// drainOrder orders hosts for draining: lost, not placed, of an earlier template, few rollouts; then the
// last group first.
func drainOrder(a, b room) int {
	rank := func(r room) int {
		switch {
		case r.lost:
			return 0
		case len(r.hosts) == 0:
			return 1
		case r.outdated:
			return 2
		default:
			return 3
		}
	}

	return cmp.Or(
		cmp.Compare(rank(a), rank(b)),
		cmp.Compare(a.used, b.used),
		cmp.Compare(len(b.name), len(a.name)),
		cmp.Compare(b.name, a.name),
	)
}
