package pool_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/pool"
)

// the time of all observations
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is an observation of a job with six groups, of a pool of one to five hosts with ten slots each.
func world(change ...func(*pool.Observation)) pool.Observation {
	o := pool.Observation{
		Spec:  pool.Spec{Owner: "me", UpAt: now.Add(-time.Hour), Image: "i", Max: 5}.WithDefaults("p"),
		Job:   pool.Job{Exists: true, Index: 7, Owner: "me", SubmittedAt: now.Add(-time.Minute)},
		Hosts: map[string]fleet.Host{}, Now: now,
	}
	for i := range 6 {
		o.Job.Groups = append(o.Job.Groups, pool.Group{Name: fmt.Sprint("host-", i)})
	}

	for _, c := range change {
		c(&o)
	}

	return o
}

// host gives a group a host in the given state with the given number of used slots.
func host(group int, state fleet.State, used int) func(*pool.Observation) {
	return func(o *pool.Observation) {
		alloc := fmt.Sprint("a", group)
		o.Job.Groups[group].Count = 1
		o.Job.Groups[group].Allocs = []pool.Alloc{{ID: alloc, State: "running"}}
		o.Hosts[pool.HostName(alloc)] = fleet.Host{
			Name: pool.HostName(alloc), State: state, Backends: map[string]fleet.Room{"local": {Slots: 10, Used: used}},
		}
	}
}

// starting gives a group an allocation whose host has not announced itself yet.
func starting(group int, state string) func(*pool.Observation) {
	return func(o *pool.Observation) {
		o.Job.Groups[group].Count = 1
		o.Job.Groups[group].Allocs = []pool.Alloc{{ID: fmt.Sprint("a", group), State: state}}
	}
}

func waiting(n int, age time.Duration) func(*pool.Observation) {
	return func(o *pool.Observation) { o.Backlog = pool.Backlog{Count: n, Age: age} }
}

func fixed(n int) func(*pool.Observation) { return func(o *pool.Observation) { o.Spec.Fixed = &n } }

// drainedByPool marks the hosts of the groups as drained by the pool itself.
func drainedByPool(groups ...int) func(*pool.Observation) {
	return func(o *pool.Observation) {
		for _, g := range groups {
			o.Last.Leaving = append(o.Last.Leaving, pool.HostName(fmt.Sprint("a", g)))
		}
	}
}

func idleFor(d time.Duration) func(*pool.Observation) {
	return func(o *pool.Observation) { o.Last.IdleSince = now.Add(-d) }
}

func TestNext(t *testing.T) {
	t.Parallel()

	const running, draining, drained, lost = fleet.Running, fleet.Draining, fleet.Drained, fleet.Lost
	for name, c := range map[string]struct {
		o      pool.Observation
		counts map[string]int
		drain  []string
		resume []string
		target int
	}{
		"idle": {o: world(host(0, running, 0)), target: 1},
		"rollouts wait, but not for long": {
			o: world(host(0, running, 10), waiting(5, 3*time.Second)), target: 1,
		},
		"rollouts wait for long": {
			o:      world(host(0, running, 10), waiting(15, time.Minute)),
			target: 3,
			counts: map[string]int{"host-1": 1, "host-2": 1},
		},
		"rollouts wait, and a host that starts has room for them": {
			o: world(host(0, running, 10), starting(1, "pending"), waiting(5, time.Minute)), target: 2,
		},
		"rollouts wait beside free slots of another backend": {
			o: world(host(0, running, 4), waiting(5, time.Minute), func(o *pool.Observation) {
				for _, h := range o.Hosts {
					// less than the pool expects of a host
					h.Backends["local"] = fleet.Room{Slots: 4, Used: 4}
					h.Backends["e2b"] = fleet.Room{Slots: 10}
				}
			}),
			target: 2, counts: map[string]int{"host-1": 1},
		},
		"no more than the most": {
			o: world(host(0, running, 10), waiting(1000, time.Minute)), target: 5,
			counts: map[string]int{"host-1": 1, "host-2": 1, "host-3": 1, "host-4": 1},
		},
		"a lost host has no room": {
			o: world(host(0, lost, 10), waiting(5, time.Minute)), target: 2, counts: map[string]int{"host-1": 1},
		},
		"more hosts than needed, since a moment": {o: world(host(0, running, 0), host(1, running, 3)), target: 2},
		"more hosts than needed, for long": {
			o:      world(host(0, running, 2), host(1, running, 3), idleFor(time.Hour)),
			target: 1,
			drain:  []string{"nomad-a0"},
		},
		"a drained host leaves when it is empty": {
			o:      world(host(0, running, 3), host(1, drained, 0), drainedByPool(1)),
			target: 1,
			counts: map[string]int{"host-1": 0},
		},
		"a drained host with rollouts stays": {
			o: world(host(0, running, 3), host(1, draining, 1), drainedByPool(1)), target: 1,
		},
		"a host that does not answer is not known to be empty": {
			o: world(host(0, running, 3), host(1, drained, 0), drainedByPool(1), func(o *pool.Observation) {
				h := o.Hosts["nomad-a1"]
				h.Error = "connection refused"
				o.Hosts["nomad-a1"] = h
			}), target: 1,
		},
		"a host that an operator drained is replaced": {
			o: world(host(0, draining, 4)), target: 1, counts: map[string]int{"host-1": 1},
		},
		"a host that leaves comes back before another one starts": {
			o:      world(host(0, running, 10), host(1, draining, 4), drainedByPool(1), waiting(2, time.Minute)),
			target: 2,
			resume: []string{"nomad-a1"},
		},
		"a fixed number": {
			o: world(host(0, running, 0), fixed(3)), target: 3, counts: map[string]int{"host-1": 1, "host-2": 1},
		},
		"a smaller fixed number: those with the fewest rollouts": {
			o:      world(host(0, running, 1), host(1, running, 9), host(2, running, 2), fixed(1)),
			target: 1,
			drain:  []string{"nomad-a0", "nomad-a2"},
		},
		"an allocation that was never placed is given up at once": {
			o:      world(host(0, running, 1), fixed(1), func(o *pool.Observation) { o.Job.Groups[1].Count = 1 }),
			target: 1,
			counts: map[string]int{"host-1": 0},
		},
		"a host that starts is marked first": {
			o: world(host(0, running, 1), starting(1, "running"), fixed(1)), target: 1, drain: []string{"nomad-a1"},
		},
		"a marked host that cannot start leaves": {
			o:      world(host(0, running, 1), starting(1, "pending"), fixed(1), drainedByPool(1)),
			target: 1,
			counts: map[string]int{"host-1": 0},
		},
		"a marked host that starts is not known to be empty": {
			o: world(host(0, running, 1), starting(1, "running"), fixed(1), drainedByPool(1)), target: 1,
		},
		"a lost host leaves before all others": {
			o:      world(host(0, running, 1), host(1, lost, 3), fixed(1)),
			target: 1,
			drain:  []string{"nomad-a1"},
			counts: map[string]int{"host-1": 0},
		},
		"old settings leave first": {
			o:      world(host(0, running, 5), host(1, running, 1), fixed(1), func(o *pool.Observation) { o.Job.Groups[0].Outdated = true }),
			target: 1,
			drain:  []string{"nomad-a0"},
		},
		"down": {
			o:     world(host(0, running, 5), host(1, running, 0), func(o *pool.Observation) { o.Spec.Down = pool.DownDrained }),
			drain: []string{"nomad-a1", "nomad-a0"},
		},
		"down now": {
			o:     world(host(0, running, 5), func(o *pool.Observation) { o.Spec.Down = pool.DownNow }),
			drain: []string{"nomad-a0"}, counts: map[string]int{"host-0": 0},
		},
		"a deployment is active": {
			o:      world(host(0, running, 10), waiting(15, time.Minute), func(o *pool.Observation) { o.Job.Deploying, o.Last.Target = true, 1 }),
			target: 1,
		},
		"stopped by hand": {
			o: world(func(o *pool.Observation) { o.Job.Stopped = true }),
		},
		"stopped before the pool was made": {
			o:      world(func(o *pool.Observation) { o.Job.Stopped, o.Job.SubmittedAt = true, now.Add(-2*time.Hour) }),
			target: 1,
			counts: map[string]int{"host-0": 1, "host-1": 0, "host-2": 0, "host-3": 0, "host-4": 0, "host-5": 0},
		},
		"no job": {
			o:      world(func(o *pool.Observation) { o.Job = pool.Job{Groups: o.Job.Groups[:2]} }),
			target: 1, counts: map[string]int{"host-0": 1, "host-1": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p, err := pool.Next(c.o)
			require.NoError(t, err)
			require.Equal(t, c.counts, p.Counts)
			require.Equal(t, c.drain, p.Drain)
			require.Equal(t, c.resume, p.Resume)
			require.Equal(t, c.target, p.Target)
			require.False(t, p.Deregister)
			require.False(t, p.Done)
		})
	}
}

// A job with another owner is never changed.
func TestAnotherOwner(t *testing.T) {
	t.Parallel()

	for _, owner := range []string{"", "another"} {
		for _, down := range []string{"", pool.DownDrained, pool.DownNow} {
			o := world(host(0, fleet.Running, 0), waiting(100, time.Hour))
			o.Job.Owner, o.Spec.Down = owner, down
			p, err := pool.Next(o)
			require.True(t, fault.Is(err, fault.Conflict), "%v", err)
			require.Nil(t, p.Counts)
			require.Empty(t, p.Drain)
			require.False(t, p.Deregister)
		}
	}
}

func TestJobEnds(t *testing.T) {
	t.Parallel()

	no := false

	for name, c := range map[string]struct {
		change            func(*pool.Observation)
		deregister, purge bool
		done              bool
	}{
		"down and empty": {func(o *pool.Observation) { o.Spec.Down = pool.DownDrained }, true, true, true},
		"down, kept":     {func(o *pool.Observation) { o.Spec.Down, o.Spec.PurgeOnShutdown = pool.DownDrained, &no }, true, false, true},
		"down, stopped":  {func(o *pool.Observation) { o.Spec.Down, o.Job.Stopped = pool.DownDrained, true }, true, true, true},
		"down, stopped, kept": {func(o *pool.Observation) {
			o.Spec.Down, o.Job.Stopped, o.Spec.PurgeOnShutdown = pool.DownDrained, true, &no
		}, false, false, true},
		"down, no job":        {func(o *pool.Observation) { o.Spec.Down, o.Job = pool.DownDrained, pool.Job{} }, false, false, true},
		"purged at its start": {func(o *pool.Observation) { o.Spec.PurgeOnStart, o.Job.SubmittedAt = true, now.Add(-2*time.Hour) }, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			p, err := pool.Next(world(c.change))
			require.NoError(t, err)
			require.Equal(t, []bool{c.deregister, c.purge, c.done}, []bool{p.Deregister, p.Purge, p.Done})
			require.Nil(t, p.Counts)
		})
	}

	busy := world(
		host(0, fleet.Running, 1),
		func(o *pool.Observation) { o.Spec.PurgeOnStart, o.Job.SubmittedAt = true, now.Add(-2*time.Hour) },
	)
	p, err := pool.Next(busy)
	require.NoError(t, err)
	require.False(t, p.Deregister, "a job with hosts is not purged at the start of a pool")
}

// Over successive checks a pool grows, is idle, and shrinks to its minimum. Marks of removed hosts are deleted.
func TestSuccessiveChecks(t *testing.T) {
	t.Parallel()

	o := world(host(0, fleet.Running, 1), host(1, fleet.Running, 0))
	look := func() pool.Plan {
		p, err := pool.Next(o)
		require.NoError(t, err)

		o.Last = pool.StatusOf(o, p)
		o.Now = o.Now.Add(2 * time.Minute)

		return p
	}
	require.Empty(t, look().Drain)
	require.Empty(t, look().Drain)
	require.Empty(t, look().Drain)
	require.Equal(t, []string{"nomad-a1"}, look().Drain, "six minutes without need for it")
	host(1, fleet.Drained, 0)(&o)
	require.Equal(t, map[string]int{"host-1": 0}, look().Counts)

	o.Job.Groups[1] = pool.Group{Name: "host-1"}

	require.Equal(t, []string{"nomad-a1"}, look().Forget)
	require.Empty(t, look().Forget)
}
