package upstream

import (
	"sync/atomic"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// Progress is how a call stands: when its reply last grew, and why it is being retried. It is safe for concurrent use; a nil one notes
// nothing.
type Progress struct {
	Changed func() // called when the trouble changes; nil: not wanted. It is set before the call begins.

	grew    atomic.Int64
	trouble atomic.Pointer[string]
}

// fails records why a try failed.
func (p *Progress) fails(why string) {
	if p == nil {
		return
	}
	if before := p.trouble.Swap(&why); p.Changed != nil && (before == nil || *before != why) {
		p.Changed()
	}
}

// Trouble is why the latest try failed; "": none did, or the reply grows.
func (p *Progress) Trouble() string {
	if why := p.trouble.Load(); why != nil {
		return *why
	}
	return ""
}

func (p *Progress) note(at time.Time) {
	if p == nil {
		return
	}
	p.grew.Store(at.UnixNano())
	if p.trouble.Load() != nil && p.trouble.Swap(nil) != nil && p.Changed != nil {
		p.Changed()
	}
}

// Grew is the zero time while nothing has come.
func (p *Progress) Grew() time.Time {
	if p == nil || p.grew.Load() == 0 {
		return time.Time{}
	}
	return time.Unix(0, p.grew.Load())
}

// owes is how long, of a try since began, the endpoint has owed its answer by now: none while the reply grows.
func (p *Progress) owes(began, now time.Time) time.Duration {
	grew := p.Grew()
	switch {
	case !grew.After(began):
		return now.Sub(began)
	case now.Sub(grew) < gateway.StallTime:
		return 0
	default:
		return now.Sub(grew)
	}
}
