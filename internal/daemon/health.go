package daemon

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
)

// health serves /healthz: 200 while all tiers run, else 503 with the state of the process.
type health struct{ state atomic.Value }

func newHealth() *health {
	h := &health{}
	h.set("starting")
	return h
}

func (h *health) set(state string) { h.state.Store(state) }

func (h *health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	state := h.state.Load().(string)
	w.Header().Set("Content-Type", "application/json")
	if state != "ready" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"status": state}) // the client is gone
}
