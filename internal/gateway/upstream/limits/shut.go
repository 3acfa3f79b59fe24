package limits

import "time"

// shut is the latest time in which an upstream was to get no requests: it was paused, or had asked for none.
type shut struct{ since, until time.Time }

// note takes in that the upstream is to get no requests before until; a time that is past ends the time in which it gets none.
func (s *shut) note(now, until time.Time) {
	switch {
	case !until.After(now):
		if s.until.After(now) {
			s.until = now
		}
	case s.until.After(now):
		s.until = until
	default:
		*s = shut{now, until}
	}
}

// within is the part of a wait in which the upstream was to get no requests; both are zero where there is none.
func (s shut) within(from, to time.Time) (time.Time, time.Time) {
	if s.since.After(from) {
		from = s.since
	}
	if s.until.Before(to) {
		to = s.until
	}
	if !to.After(from) {
		return time.Time{}, time.Time{}
	}
	return from, to
}

// Shut is the part of a wait for admission in which the upstream was paused or had asked for no requests. The rest of a wait is for other requests.
func (a *Admission) Shut(from, to time.Time) (time.Time, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shut.within(from, to)
}
