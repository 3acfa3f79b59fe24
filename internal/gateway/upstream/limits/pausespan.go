package limits

import "time"

// pauseSpan is the latest span in which an upstream should get no requests: it was paused, or had asked for none.
type pauseSpan struct{ since, until time.Time }

// extend makes the span last to until; a time in the past ends it.
func (s *pauseSpan) extend(now, until time.Time) {
	switch {
	case !until.After(now):
		if s.until.After(now) {
			s.until = now
		}
	case s.until.After(now):
		s.until = until
	default:
		*s = pauseSpan{now, until}
	}
}

// within returns the part of a wait that lies in the span; zero times: none.
func (s pauseSpan) within(from, to time.Time) (time.Time, time.Time) {
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

// PausedPart returns the part of a wait for admission in which the upstream was paused or had asked for no
// requests. The rest was spent waiting for other requests.
func (a *Admission) PausedPart(from, to time.Time) (time.Time, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()

	return a.shut.within(from, to)
}
