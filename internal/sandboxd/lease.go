package sandboxd

import (
	"net/http"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// maxLease bounds a lease, so that a wrong unit does not keep a forgotten sandbox alive.
const maxLease = 7 * 24 * time.Hour

// lease calls expired if it is not renewed in time.
type lease struct {
	mu sync.Mutex

	// nil: no end
	timer *time.Timer
}

func newLease(ttl time.Duration, expired func()) *lease {
	if ttl <= 0 {
		return &lease{}
	}

	return &lease{timer: time.AfterFunc(ttl, expired)}
}

func (l *lease) renew(ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.timer != nil {
		l.timer.Reset(ttl)
	}
}

func (l *lease) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

func (s *Server) postLease(w http.ResponseWriter, r *http.Request) {
	var in wire.Lease
	if err := readJSON(w, r, &in); err != nil {
		reply.Error(w, err)
		return
	}

	if in.TTLMillis <= 0 || in.TTLMillis > maxLease.Milliseconds() {
		reply.Error(w, fault.Field("ttl_ms", "%d must be over 0 and at most %d", in.TTLMillis, maxLease.Milliseconds()))
		return
	}

	s.lease.renew(time.Duration(in.TTLMillis) * time.Millisecond)
	w.WriteHeader(http.StatusNoContent)
}
