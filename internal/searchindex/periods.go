package searchindex

import (
	"cmp"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// lengths are those that a period may have: people read times in them. Beyond the last one its multiples are used.
func lengths() []time.Duration {
	const day = 24 * time.Hour

	return []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 7 * day, 28 * day,
	}
}

// periods divides the time from the first start to the last end into at most rollout.MaxPeriods periods of one length.
// A rollout that never began is in none.
func periods(all []endedRollout, l lineage) []rollout.Period {
	all = slices.DeleteFunc(slices.Clone(all), func(e endedRollout) bool { return !e.duration.Valid })
	if len(all) == 0 {
		return []rollout.Period{}
	}

	first := slices.MinFunc(all, func(a, b endedRollout) int { return cmp.Compare(a.started, b.started) }).started
	last := slices.MaxFunc(all, func(a, b endedRollout) int { return cmp.Compare(a.end(), b.end()) }).end()
	x := axis{length: lengthOf(first, last)}
	x.begin = first - mod(first, x.length)
	x.list = make([]rollout.Period, (last-x.begin)/x.length+1)

	for i := range x.list {
		x.list[i] = rollout.Period{Start: x.at(i), End: x.at(i + 1), Outcomes: map[rollout.Outcome]int{}}
	}

	for _, e := range all {
		p := &x.list[(e.started-x.begin)/x.length]
		addToPeriod(p, e)

		if n, ok := l.behind(e); ok {
			p.Versioned++
			p.Behind += n
			p.MaxBehind = max(p.MaxBehind, n)
		}

		if e.course.Sequences > 0 {
			p.Sequenced++
			p.Sequences += e.course.Sequences
		}

		x.spread(e.course.Queued, func(p *rollout.Period, share float64) { p.Queued += share })
		x.spread(e.course.Running, func(p *rollout.Period, share float64) { p.Running += share })
	}

	return slices.DeleteFunc(x.list, func(p rollout.Period) bool {
		return p.Rollouts == 0 && p.Queued == 0 && p.Running == 0
	})
}

// axis is a time in periods. Its times are Unix microseconds.
type axis struct {
	begin, length int64
	list          []rollout.Period
}

// at is the start of a period.
func (x axis) at(i int) time.Time { return time.UnixMicro(x.begin + int64(i)*x.length).UTC() }

// spread calls add with each period that spans touch, and with the share of the period's time that they have.
func (x axis) spread(spans []span, add func(*rollout.Period, float64)) {
	for _, s := range spans {
		from, to := max(s[0]-x.begin, 0), min(s[1]-x.begin, int64(len(x.list))*x.length)

		for at := from; at < to; {
			i := at / x.length
			end := min((i+1)*x.length, to)
			add(&x.list[i], float64(end-at)/float64(x.length))
			at = end
		}
	}
}

// lengthOf is the shortest length, in microseconds, of which MaxPeriods reach from the first start to the last end.
func lengthOf(first, last int64) int64 {
	var length int64

	for _, d := range lengths() {
		length = d.Microseconds()
		if (last-first)/length+1 < rollout.MaxPeriods {
			return length
		}
	}

	return length * ((last-first)/length/(rollout.MaxPeriods-1) + 1)
}

// mod is the remainder of a division, which is not negative for a time before 1970.
func mod(n, by int64) int64 { return (n%by + by) % by }

// addToPeriod adds a rollout to its period.
func addToPeriod(p *rollout.Period, e endedRollout) {
	p.Rollouts++
	p.Outcomes[e.outcome]++

	p.Add(e.reward.V, e.reward.Valid)

	p.Turns += int64(e.turns.V)
	p.CompletionTokens += e.tokens.V
	p.Duration += e.seconds().V
}
