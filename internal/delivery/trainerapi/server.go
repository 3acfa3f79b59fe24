package trainerapi

import (
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Options of a server.
type Options struct {
	Queue *queue.Queue
	Log   *slog.Logger
	// MaxBody bounds a request's body after decompression, in bytes; 0: 256 MiB. The bodies of all requests
	// together have twice as much, and the groups parsed from them as much again.
	MaxBody int64
}

const defaultMaxBody = 256 << 20

// server serves a queue.
type server struct {
	q      *queue.Queue
	log    *slog.Logger
	bodies bodies
	// plain is held while a batch is served to a client that acknowledges it by its next call: that call, or its
	// registration, may arrive on another connection before the end of this one is recorded.
	plain chan struct{}
}

// New returns the handler. It does not check tokens; the caller does.
func New(o Options) http.Handler {
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}

	s := &server{q: o.Queue, log: o.Log, bodies: newBodies(o.MaxBody), plain: make(chan struct{}, 1)}
	r := chi.NewRouter()
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) {
		s.answer(w, map[string]string{"message": "AtroposLib API"})
	})
	r.Post("/register", s.register)
	r.Get("/info", s.info)
	r.Get("/wandb_info", s.wandbInfo)
	r.Get("/status", s.status)
	r.Get("/batch", s.batch)
	r.Post("/batch/{id}/ack", s.ack)
	r.Get("/latest_example", s.latest)
	r.Get("/reset_data", s.reset)
	r.Post("/register-env", s.registerEnv)
	r.Post("/disconnect-env", s.disconnectEnv)
	r.Get("/status-env", s.statusEnv)
	r.Post("/scored_data", s.scoredData)
	r.Post("/scored_data_list", s.scoredDataList)
	r.Get("/queues/{name}", s.pullStatus)
	r.Get("/queues/{name}/groups", s.pull)
	r.Post("/queues/{name}/groups", s.push)
	r.Post("/queues/{name}/ack", s.ackPull)
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"detail":"Not Found"}`, http.StatusNotFound)
	})

	return r
}

func (s *server) answer(w http.ResponseWriter, v any) { s.answerWith(w, http.StatusOK, v) }

func (s *server) answerWith(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		s.log.Error("answer not encoded", "error", err)
		http.Error(w, "answer not encoded", http.StatusInternalServerError)

		return
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// the client may be gone
	_, _ = w.Write(data)
}

// problem is one entry of a 422, in FastAPI's form.
type problem struct {
	Loc  []string `json:"loc"`
	Msg  string   `json:"msg"`
	Type string   `json:"type"`
}

// refuse answers with an error.
func (s *server) refuse(w http.ResponseWriter, err error) {
	var f *fault.Error

	status := fault.EdgeOf(fault.KindOf(err)).HTTPStatus
	switch kind := fault.KindOf(err); {
	case kind == fault.Invalid && asField(err, &f):
		s.answerWith(w, status, map[string]any{"detail": []problem{{[]string{"body", f.Field}, f.Msg, "value_error"}}})
		return
	case status >= http.StatusInternalServerError:
		s.log.Error("request failed", "error", err)
	}

	s.answerWith(w, status, map[string]any{"detail": err.Error(), "kind": fault.KindOf(err)})
}
