package scripted

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// counter counts how often a session got the faults of one turn.
type counter struct {
	mu   sync.Mutex
	hits map[hit]int
}

type hit struct {
	script  string
	turn    int
	session string
}

// maxSeen bounds the memory of a server under load; beyond it all counts are reset.
const maxSeen = 100_000

func (c *counter) next(h hit) int {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.hits == nil || len(c.hits) >= maxSeen {
		c.hits = map[hit]int{}
	}

	c.hits[h]++

	return c.hits[h] - 1
}

// fault returns the fault of this call, or the zero Fault.
func (s *Server) fault(sc plannedReply, session string) Fault {
	if len(sc.faults) == 0 {
		return Fault{}
	}

	seen := s.shown.next(hit{sc.script, sc.turn, session})
	for _, f := range sc.faults {
		if f.Times == 0 || seen < f.Times {
			return f
		}

		seen -= f.Times
	}

	return Fault{}
}

// refuse sends a fault that replaces the reply, and reports whether there is one.
func (f Fault) refuse(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case f.Hang:
		<-r.Context().Done()
	case f.NotSSE:
		writeJSON(w, http.StatusOK, map[string]any{"detail": "this is neither a stream nor a completion"})
	case f.Garbage:
		w.Header().Set("Content-Type", "text/event-stream")
		// an error means that the caller left
		_, _ = io.WriteString(w, "data: {\"choices\": [{]\n\ndata: \xff\x00\n\n")
	case f.Status != 0:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
		}

		writeError(w, f.Status, f.text(r))
	default:
		return false
	}

	return true
}

func (f Fault) text(r *http.Request) string {
	text := f.Message
	if text == "" {
		text = fmt.Sprintf("scripted failure %d", f.Status)
	}

	if f.EchoKey {
		text += ": " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}

	return text
}
