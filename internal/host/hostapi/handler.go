package hostapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
	"github.com/rolloutd/rolloutd/internal/input/bearer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// purpose names the token of the API; see seal.Key.Token.
const purpose = "host api"

// alive is the interval of blank lines in a stream without events, which show its reader that the host is alive.
const alive = 15 * time.Second

// Transcripts returns the transcripts of the agents that work on the host; *supervisor.Watcher implements it.
type Transcripts interface {
	// Transcript returns the latest transcript of a sandbox's agent; fault.NotFound when no agent works
	// there, or it has no transcript.
	Transcript(ctx context.Context, sandboxID string) (rollout.Transcript, error)
}

// Options of a Handler.
type Options struct {
	Key         seal.Key
	Events      *eventlog.Logs
	Transcripts Transcripts
	Self        Self
}

// Self is the host itself.
type Self interface {
	// Status is the current status of the host.
	Status(ctx context.Context) fleet.Host
	// Look reads whether operators want the host drained.
	Refresh(ctx context.Context) error
}

// Handler serves the API. Errors are {"kind", "message"}.
//
//	GET /rollouts/{id}/attempts/{n}/events?after=ID → JSON lines of rollout.Event as they happen; the last line is {"end":true}
//	GET /rollouts/{id}/attempts/{n}/transcript      → rollout.Transcript
//	GET /status                                     → fleet.Host
//	POST /status                                    → the same, after the host has read its drain mark in the store
func Handler(o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rollouts/{id}/attempts/{n}/events", answering(o.events))
	mux.HandleFunc("GET /rollouts/{id}/attempts/{n}/transcript", answering(o.transcript))
	mux.HandleFunc("GET /status", answering(o.status))
	mux.HandleFunc("POST /status", answering(func(w http.ResponseWriter, r *http.Request) error {
		if err := o.Self.Refresh(r.Context()); err != nil {
			return err
		}

		return o.status(w, r)
	}))

	token := o.Key.Token(purpose)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !bearer.Has(r, token) {
			refuse(w, fault.New(fault.Unauthorized, "the token of the deployment is needed"))
			return
		}

		mux.ServeHTTP(w, r)
	})
}

type failure struct {
	Kind    fault.Kind `json:"kind"`
	Message string     `json:"message"`
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(fault.EdgeOf(fault.KindOf(err)).HTTPStatus)
	// the client may be gone
	_ = json.NewEncoder(w).Encode(failure{fault.KindOf(err), err.Error()})
}

func answering(do func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			refuse(w, err)
		}
	}
}

// target is the attempt that a request's path names.
func target(r *http.Request) (rollout.Target, error) {
	n, err := strconv.Atoi(r.PathValue("n"))

	t := rollout.Target{RolloutID: r.PathValue("id"), Attempt: n}
	if err != nil || n < 1 {
		return t, fault.Field("attempt", "%q is not a number from 1", r.PathValue("n"))
	}

	return t, rollout.CheckID(t.RolloutID)
}

func (o Options) transcript(w http.ResponseWriter, r *http.Request) error {
	t, err := target(r)
	if err != nil {
		return err
	}

	latest, err := o.Transcripts.Transcript(r.Context(), t.SandboxID())
	if err != nil {
		return err
	}

	w.Header().Set("Content-Type", "application/json")
	// the client may be gone
	_ = json.NewEncoder(w).Encode(latest)

	return nil
}

func (o Options) status(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	// the client may be gone
	_ = json.NewEncoder(w).Encode(o.Self.Status(r.Context()))

	return nil
}

// end is the last line of a whole log.
const end = "{\"end\":true}\n"

func (o Options) events(w http.ResponseWriter, r *http.Request) error {
	t, err := target(r)
	if err != nil {
		return err
	}

	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		return fault.Field("after", "%q is not an event's id", r.URL.Query().Get("after"))
	}

	log, err := o.Events.Find(t)
	if err != nil {
		return err
	}

	w.Header().Set("Content-Type", "application/jsonl")

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()

	out := newLines(w, alive, cancel)
	defer out.stop()

	if err := log.Stream(ctx, after, out.write); err == nil {
		// the client may be gone
		_ = out.write([]byte(end))
	}
	// a broken stream has no end line
	return nil
}
