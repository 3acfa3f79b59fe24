package watch

import "time"

// ShareOf is the part of a core above which an agent makes progress.
var ShareOf = shareOf

// UntilAnswered writes again while the store does not answer.
var UntilAnswered = untilAnswered

// SaveDue is when the transcript may be saved of an agent that was ready at a time, and whose transcript was saved at another.
func SaveDue(ready, saved time.Time) time.Time {
	p := progressReporter{readyAt: ready, savedAt: saved}
	return p.saveDue()
}
