package gateway

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// valve lets the calls to one upstream begin, or holds them back, as while its weights are replaced.
type valve struct {
	mu      sync.Mutex
	running int           // calls that have begun and are not over
	idle    chan struct{} // closed when running comes to 0; nil unless somebody waits for that
	held    chan struct{} // closed at the end of the pause; nil when there is none
	until   time.Time     // the pause ends by itself, lest who asked for it is gone
}

// upstreamName is the name by which an upstream is paused: its endpoint's, or host and port where it has none.
func upstreamName(m rollout.Model) string {
	if m.Endpoint != "" {
		return m.Endpoint
	}
	u, err := url.Parse(m.BaseURL)
	if err != nil {
		return m.BaseURL
	}
	return u.Host
}

// enter returns when a call may begin; the error is why ctx ended first.
func (v *valve) enter(ctx context.Context) error {
	for {
		v.mu.Lock()
		held := v.held
		if held == nil {
			v.running++
			v.mu.Unlock()
			return nil
		}
		v.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// leave says that a call that had entered is over.
func (v *valve) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.running--; v.running == 0 && v.idle != nil {
		close(v.idle)
		v.idle = nil
	}
}

// pause holds calls back for so long from now. The latest pause counts.
func (v *valve) pause(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held == nil {
		v.held = make(chan struct{})
	}
	v.until = time.Now().Add(d)
	time.AfterFunc(d, v.expire)
}

// expire ends a pause whose time is up.
func (v *valve) expire() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !time.Now().Before(v.until) {
		v.open()
	}
}

func (v *valve) resume() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open()
}

// open ends the pause, if there is one. v.mu is held.
func (v *valve) open() {
	if v.held != nil {
		close(v.held)
		v.held, v.until = nil, time.Time{}
	}
}

// drained returns when no call is under way.
func (v *valve) drained(ctx context.Context) error {
	v.mu.Lock()
	if v.running == 0 {
		v.mu.Unlock()
		return nil
	}
	if v.idle == nil {
		v.idle = make(chan struct{})
	}
	idle := v.idle
	v.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Timeout, "calls are still under way; no new ones begin until the pause ends")
	}
}

func (v *valve) status() UpstreamStatus {
	v.mu.Lock()
	defer v.mu.Unlock()
	return UpstreamStatus{Paused: v.held != nil, Until: v.until, InFlight: v.running}
}
