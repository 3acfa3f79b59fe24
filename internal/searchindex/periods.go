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

// periods divides rollouts by their start into at most rollout.MaxPeriods periods of one length.
func periods(all []ended) []rollout.Period {
	if len(all) == 0 {
		return []rollout.Period{}
	}

	slices.SortFunc(all, func(a, b ended) int { return cmp.Compare(a.started, b.started) })

	length := lengthOf(all[0].started, all[len(all)-1].started)
	list := []rollout.Period{}

	for _, e := range all {
		begin := e.started - mod(e.started, length)
		if n := len(list); n == 0 || list[n-1].Start.UnixMicro() != begin {
			list = append(list, rollout.Period{
				Start:    time.UnixMicro(begin).UTC(),
				End:      time.UnixMicro(begin + length).UTC(),
				Outcomes: map[rollout.Outcome]int{},
			})
		}

		add(&list[len(list)-1], e)
	}

	return list
}

// lengthOf is the shortest length, in microseconds, of which MaxPeriods reach from the first start to the last.
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

// add adds a rollout to its period.
func add(p *rollout.Period, e ended) {
	p.Rollouts++
	p.Outcomes[e.outcome]++

	if e.reward.Valid {
		var sum float64
		if p.MeanReward != nil {
			sum = *p.MeanReward * float64(p.Rewarded)
		}

		p.Rewarded++
		p.MeanReward = new((sum + e.reward.V) / float64(p.Rewarded))

		if e.reward.V >= 1 {
			p.Passed++
		}
	}

	p.Turns += int64(e.turns.V)
	p.CompletionTokens += e.tokens.V
	p.Duration += e.seconds().V
}
