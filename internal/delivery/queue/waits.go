package queue

import (
	"fmt"
	"time"
)

// waitsFor says what the next batch waits for; "": a trainer's request.
func (q *Queue) waitsFor(queue []group) string {
	r := q.st.Registration
	if r == nil {
		return "a trainer: none is registered"
	}

	if q.next(queue) != nil {
		return ""
	}

	n := 0
	for _, g := range queue {
		n += g.Sequences
	}

	if n < r.BatchSize {
		return fmt.Sprintf("groups: %d of %d sequences are queued", n, r.BatchSize)
	}

	if m, waits := q.missing(queue); waits {
		return fmt.Sprintf(
			"groups of environment %d (%s), whose min_batch_allocation is %v: none is queued. It called %s ago",
			m.env,
			q.st.Envs[m.env].Name,
			m.share,
			q.o.Now().Sub(q.lastCall[m.env]).Round(time.Second),
		)
	}

	return fmt.Sprintf(
		"groups: %d sequences are queued, but not a batch of %d in whole packs of the largest group's size, %d",
		n,
		r.BatchSize,
		largest(queue),
	)
}

// missing returns the first minimum that no queued group meets; false: none.
func (q *Queue) missing(queue []group) (minimum, bool) {
	packs := packsByEnv(queue)

	for _, m := range q.minimums() {
		if _, ok := wantedOf(queue, packs, q.st.Registration.BatchSize, []minimum{m}); !ok {
			return m, true
		}
	}

	return minimum{}, false
}
