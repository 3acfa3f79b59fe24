package limits

import (
	"maps"
	"time"
)

// silence is the time without anything from an endpoint that has a call, after which its status says so.
const silence = time.Minute

// NoteFault counts a sign of a fault of the engine, by its word.
func (a *Admission) NoteFault(word string) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.faults == nil {
		a.faults = map[string]int{}
	}

	a.faults[word]++
}

func (a *Admission) faulty() bool {
	a.mu.Lock()
	defer a.mu.Unlock()

	return len(a.faults) > 0
}

// Heard records that a reply grew.
func (a *Admission) Heard(at time.Time) { a.heard.Store(at.UnixNano()) }

// silentSince is since when nothing came from the endpoint although it has a call; the zero time: something came, or
// it has none. a.mu is held.
func (a *Admission) silentSince(now time.Time) time.Time {
	var oldest time.Time

	for p := range a.running {
		if oldest.IsZero() || p.began.Before(oldest) {
			oldest = p.began
		}
	}

	since := latest(oldest, time.Unix(0, a.heard.Load()))
	if oldest.IsZero() || now.Sub(since) < silence {
		return time.Time{}
	}

	return since
}

// addFaults adds counts.
func addFaults(sum, more map[string]int) map[string]int {
	if len(more) == 0 {
		return sum
	}

	out := maps.Clone(sum)
	if out == nil {
		out = map[string]int{}
	}

	for word, n := range more {
		out[word] += n
	}

	return out
}
