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

// sseAlive is the time between comments on a stream without events. They show proxies, and this server,
// that the connection is open.
const sseAlive = 15 * time.Second

// events streams the events of a rollout until it ends. An event's id is its position in the rollout's log,
// so a client whose connection was lost resumes at the same position, on any replica.
func (a *API) events(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	if _, err := a.Rollouts.State(r.Context(), id); err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	// an id that is not a number is not from this server: begin at the first event
	after, _ := strconv.ParseInt(r.Header.Get("Last-Event-ID"), 10, 64)

	ctx, cancel := a.Context(r)
	defer cancel()

	batches := make(chan []rollout.Event)
	go func() {
		defer close(batches)
		// after an error the client reconnects
		_ = a.Rollouts.Events(ctx, id, after, func(events []rollout.Event) error {
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
	// wait for the sender to end
	for range batches {
	}
}

// stream writes batches of events, and comments between them, until there are no more or the client has left.
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

// sse encodes events as server-sent events. Their data is JSON on one line.
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
