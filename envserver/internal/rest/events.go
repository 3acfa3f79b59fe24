package rest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// eventPoll is the time between two looks at a rollout whose events are followed.
const eventPoll = time.Second

// events tells the phases of a rollout as they begin, and ends with its end. An event's id is its place among all of the
// rollout's, so that a client which lost the stream goes on where it was, on any replica.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	state, err := a.Rollouts.State(r.Context(), id)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	next, _ := strconv.Atoi(r.Header.Get("Last-Event-ID")) // an id that is not a number is none of ours: begin at the first event
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	ctx, cancel := a.Context(r)
	defer cancel()
	tick := time.NewTicker(eventPoll)
	defer tick.Stop()
	for {
		var out []byte
		out, next = newEvents(state, max(next, 0))
		if len(out) == 0 {
			out = []byte(": still here\n\n") // shows a proxy, and us, that the line is up
		}
		if _, err := w.Write(out); err != nil || http.NewResponseController(w).Flush() != nil || state.Done() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now, err := a.Rollouts.State(ctx, id); err == nil { // an engine that is away is waited for
			state = now
		}
	}
}

// newEvents are the events of a rollout after the first seen ones, and how many there are then.
func newEvents(state rollout.State, seen int) ([]byte, int) {
	var b bytes.Buffer
	write := func(n int, name string, v any) {
		data, err := pyjson.Encode(v)
		if err != nil {
			return // a state is made of plain values
		}
		fmt.Fprintf(&b, "id: %d\nevent: %s\ndata: %s\n\n", n, name, data)
	}
	for i := seen; i < len(state.Phases); i++ {
		p := state.Phases[i]
		write(i+1, "phase", map[string]any{"phase": p.Phase, "attempt": p.Attempt, "start": p.Start})
	}
	n := len(state.Phases)
	if state.Done() {
		n++
		if seen < n {
			write(n, "done", state)
		}
	}
	return b.Bytes(), max(n, seen)
}
