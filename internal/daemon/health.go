package daemon

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
)

// health serves /healthz: 200 while all tiers run, else 503 with the state of the process. A problem that does not keep the process from
// working, such as a full store, is in the answer.
type health struct {
	state   atomic.Value
	problem atomic.Value // func() string: what operators should look at although the process works
}

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
	answer := map[string]string{"status": state}
	if problem, _ := h.problem.Load().(func() string); problem != nil && problem() != "" {
		answer["problem"] = problem()
	}
	_ = json.NewEncoder(w).Encode(answer) // the client is gone
}
