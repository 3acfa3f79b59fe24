package upstream

import (
	"sync/atomic"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// Progress is when the reply of a call last grew. It is safe for concurrent use; a nil one notes nothing.
type Progress struct{ grew atomic.Int64 }

func (p *Progress) note(at time.Time) {
	if p != nil {
		p.grew.Store(at.UnixNano())
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
