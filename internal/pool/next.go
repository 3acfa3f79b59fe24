package pool

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Next returns the plan for an observation. The error is a fault.Conflict when the job belongs to another pool.
func Next(o Observation) (Plan, error) {
	p := Plan{Leaving: o.Last.Leaving, IdleSince: o.Last.IdleSince, Target: o.Last.Target}

	down := o.Spec.Down != ""
	switch {
	case !o.Job.Exists && down:
		p.Done, p.Why = true, "the pool is down"
		return p, nil
	case !o.Job.Exists:
		return start(o, p, "made the job"), nil
	case o.Job.Owner != o.Spec.Owner:
		return p, fault.New(fault.Conflict,
			"Nomad job %s has the owner %q, and this pool is %q: choose another sandbox_job_id",
			o.Spec.JobID, o.Job.Owner, o.Spec.Owner)
	case o.Job.Deploying:
		p.Why = "changed nothing: a deployment of the job is active"
		return p, nil
	case o.Job.Stopped:
		return stopped(o, p, down), nil
	case o.Spec.PurgeOnStart && !down && o.Job.SubmittedAt.Before(o.Spec.UpAt) && o.on() == 0:
		p.Deregister, p.Purge, p.Why = true, true, "purged the job without hosts"
		return p, nil
	case down && o.on() == 0:
		p.Deregister, p.Purge, p.Done, p.Why = true, o.Spec.Purges(), true, "the pool is down"
		p.Forget = o.endedHosts()

		return p, nil
	}

	return o.adjust(p), nil
}

// stopped is Next for a job that is registered and stopped.
func stopped(o Observation, p Plan, down bool) Plan {
	switch {
	case down:
		p.Deregister, p.Purge, p.Done, p.Why = o.Spec.Purges(), o.Spec.Purges(), true, "the pool is down"
		return p
	case o.Job.SubmittedAt.After(o.Spec.UpAt):
		p.Why = "changed nothing: the job was stopped by hand (rolloutd pool up starts it)"
		return p
	}

	return start(o, p, "started the job")
}

// start is the plan for a job that has no host yet.
func start(o Observation, p Plan, why string) Plan {
	p.Target, p.IdleSince, p.Leaving, p.Forget = o.target(0, 0, 0), time.Time{}, nil, o.endedHosts()

	p.Counts, p.Why = map[string]int{}, fmt.Sprintf("%s with %d hosts", why, p.Target)
	for i, g := range o.Job.Groups {
		p.Counts[g.Name] = min(1, max(0, p.Target-i))
	}

	return p
}

// on counts the groups that have hosts or are to have one.
func (o Observation) on() (n int) {
	for _, g := range o.Job.Groups {
		if g.Count > 0 || len(g.Allocs) > 0 {
			n++
		}
	}

	return n
}

// endedHosts lists the hosts that the pool drained and whose allocations have ended.
func (o Observation) endedHosts() (hosts []string) {
	live := map[string]bool{}

	for _, g := range o.Job.Groups {
		for _, a := range g.Allocs {
			live[HostName(a.ID)] = true
		}
	}

	for _, h := range o.Last.Leaving {
		if !live[h] {
			hosts = append(hosts, h)
		}
	}

	return hosts
}

// adjust is Next for a running job.
func (o Observation) adjust(p Plan) Plan {
	p.Forget = o.endedHosts()
	p.Leaving = slices.DeleteFunc(slices.Clone(p.Leaving), func(h string) bool { return slices.Contains(p.Forget, h) })
	p.Counts = map[string]int{}

	var staying, leaving []room

	for _, g := range o.Job.Groups {
		switch r := o.room(g); {
		case g.Count == 0:
		case r.leaving:
			leaving = append(leaving, r)
		default:
			staying = append(staying, r)
		}
	}

	free, used := 0, 0
	for _, r := range staying {
		free, used = free+r.free, used+r.used
	}

	o.idle(&p, len(staying), used)

	p.Target = o.target(len(staying), free, used)
	if due := o.Now.Sub(p.IdleSince); p.Target < len(staying) && o.auto() &&
		(p.IdleSince.IsZero() || due < seconds(o.Spec.Idle)) {
		p.Target = min(len(staying), o.Spec.Max)
	}

	leaving = o.grow(&p, leaving, p.Target-len(staying))
	o.shrink(&p, staying, len(staying)-p.Target)

	for _, r := range leaving {
		if r.empty || o.Spec.Down == DownNow {
			p.Counts[r.name] = 0
		}
	}

	if len(p.Counts) == 0 {
		p.Counts = nil
	}

	p.Why = o.summary(p)

	return p
}

func (o Observation) auto() bool { return o.Spec.Down == "" && o.Spec.Fixed == nil }

// target is how many hosts the pool is to have. staying hosts are not leaving; they have free and used slots.
func (o Observation) target(staying, free, used int) int {
	s := o.Spec
	switch {
	case s.Down != "":
		return 0
	case s.Fixed != nil:
		return min(*s.Fixed, s.Max)
	}

	want := o.fit(used)
	if short := o.Backlog.Count - free; short > 0 {
		want = staying
		if o.Backlog.Age >= seconds(s.AcquireTimeout) {
			want += (short + s.Slots - 1) / s.Slots
		}
	}

	return min(max(want, *s.Min), s.Max)
}

// fit is how many hosts the running and the waiting rollouts need.
func (o Observation) fit(used int) int {
	return max(*o.Spec.Min, (used+o.Backlog.Count+o.Spec.Slots-1)/o.Spec.Slots)
}

// idle records since when there are more hosts than needed.
func (o Observation) idle(p *Plan, staying, used int) {
	switch {
	case !o.auto() || o.fit(used) >= staying:
		p.IdleSince = time.Time{}
	case p.IdleSince.IsZero():
		p.IdleSince = o.Now
	}
}

// grow resumes hosts that the pool drained, then starts others. It returns the hosts that still leave.
func (o Observation) grow(p *Plan, leaving []room, n int) (still []room) {
	for _, r := range leaving {
		if n > 0 && r.ours {
			p.Resume = append(p.Resume, r.hosts...)
			n--

			continue
		}

		still = append(still, r)
	}

	p.Leaving = slices.DeleteFunc(p.Leaving, func(h string) bool { return slices.Contains(p.Resume, h) })

	for _, g := range o.Job.Groups {
		if n > 0 && g.Count == 0 && len(g.Allocs) == 0 {
			p.Counts[g.Name] = 1
			n--
		}
	}

	return still
}

// shrink drains n hosts, in the order of drainOrder. A group without an allocation has no host to drain.
func (o Observation) shrink(p *Plan, staying []room, n int) {
	slices.SortStableFunc(staying, drainOrder)

	for _, r := range staying[:max(0, min(n, len(staying)))] {
		if len(r.hosts) == 0 || r.lost || o.Spec.Down == DownNow {
			p.Counts[r.name] = 0
		}

		p.Drain = append(p.Drain, r.hosts...)
	}

	p.Leaving = append(p.Leaving, p.Drain...)
}

// summary describes the changes of a plan.
func (o Observation) summary(p Plan) string {
	on, off := 0, 0
	for n := range maps.Values(p.Counts) {
		on, off = on+n, off+1-n
	}

	if on+off+len(p.Drain)+len(p.Resume) == 0 {
		return ""
	}

	return fmt.Sprintf("started %d, resumed %d, drained %d, removed %d", on, len(p.Resume), len(p.Drain), off)
}
