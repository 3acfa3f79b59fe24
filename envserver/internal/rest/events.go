package rest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// sseAlive is how often a stream without events has a comment, which shows a proxy, and us, that the connection is up.
const sseAlive = 15 * time.Second

// events streams the events of a rollout as they happen, and ends with its end. An event's id is its place in the rollout's log, so a
// client that lost the stream continues where it was, on any replica.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	if _, err := a.Rollouts.State(r.Context(), id); err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	after, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64) // an id that is not a number is none of ours: begin at the first event
	ctx, cancel := a.Context(r)
	defer cancel()
	batches := make(chan []rollout.Event)
	go func() {
		defer close(batches)
		_ = a.Rollouts.Events(ctx, id, after, func(events []rollout.Event) error { // its client comes back
			select {
			case batches <- events:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	stream(w, batches)
	cancel()
	for range batches { // the sender ends before the handler does
	}
}

// stream writes batches of events, and comments between them, until there are no more or the client is gone.
func stream(w http.ResponseWriter, batches <-chan []rollout.Event) {
	beat := time.NewTicker(sseAlive)
	defer beat.Stop()
	out := []byte(": events follow\n\n")
	for {
		if _, err := w.Write(out); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case events, more := <-batches:
			if !more {
				return
			}
			out = sse(events)
		case <-beat.C:
			out = []byte(": still here\n\n")
		}
	}
}

// sse writes events as server-sent ones. Their data is JSON on one line.
func sse(events []rollout.Event) []byte {
	var b bytes.Buffer
	for _, e := range events {
		if e.ID > 0 {
			fmt.Fprintf(&b, "id: %d\n", e.ID)
		}
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.Kind, e.Data)
	}
	return b.Bytes()
}
