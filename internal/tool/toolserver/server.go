package toolserver

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/input/bearer"
	"github.com/rolloutd/rolloutd/internal/sandboxd/idempotent"
	"github.com/rolloutd/rolloutd/internal/tool"
	"golang.org/x/sync/semaphore"
)

const (
	// DefaultConcurrency is the default number of parallel calls.
	DefaultConcurrency = 16
	// DefaultTimeout and maxTimeout bound a call.
	DefaultTimeout = 2 * time.Minute
	maxTimeout     = 10 * time.Minute

	// bounds the listing of one source
	listTime = 10 * time.Second
)

// Source is a named tool.Source.
type Source struct {
	Name string
	tool.Source
}

// Options of a Server.
type Options struct {
	// bearer token of POST /execute; "": none
	Token string

	// parallel calls; more wait. 0: DefaultConcurrency
	Concurrency int
	Sources     []Source

	// nil: silent
	Logger *slog.Logger
}

// Server serves the tools of some sources. It is safe for concurrent use.
type Server struct {
	o       Options
	log     *slog.Logger
	slots   *semaphore.Weighted
	results *idempotent.Table[tool.Result]
	order   order
}

// New returns a Server.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	return &Server{
		o: o, log: o.Logger, slots: semaphore.NewWeighted(int64(cmp.Or(o.Concurrency, DefaultConcurrency))),
		results: idempotent.New(func(r tool.Result) int { return len(r.Content) + len(r.Message) + len(r.Data) }),
	}
}

// Handler returns the handler of the HTTP API.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"message": "Atropos-Agent Tool Server"})
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /tools", s.list)
	mux.HandleFunc("POST /execute", s.execute)

	return mux
}

// offered is a tool and its source.
type offered struct {
	tool.Definition
	source tool.Source
}

// tools returns the tools of all sources that answer, in the order of the sources.
func (s *Server) tools(ctx context.Context) []offered {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()

	lists := make([][]tool.Definition, len(s.o.Sources))

	var asked sync.WaitGroup
	for i, source := range s.o.Sources {
		asked.Go(func() {
			var err error
			if lists[i], err = source.List(ctx); err != nil {
				s.log.WarnContext(ctx, "tools not listed", "source", source.Name, "error", err)
			}
		})
	}

	asked.Wait()

	var all []offered

	seen := map[string]bool{}

	for i, list := range lists {
		for _, d := range list {
			if seen[d.Name] {
				s.log.WarnContext(ctx, "tool left out: another source has one of that name",
					"source", s.o.Sources[i].Name, "tool", d.Name)

				continue
			}

			seen[d.Name] = true
			all = append(all, offered{d, s.o.Sources[i].Source})
		}
	}

	return all
}

type functionTool struct {
	Type     string          `json:"type"`
	Function tool.Definition `json:"function"`
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	list := []functionTool{}
	for _, t := range s.tools(r.Context()) {
		list = append(list, functionTool{"function", t.Definition})
	}

	answer(w, http.StatusOK, map[string]any{"tools": list})
}

// refuse answers a request without the token and reports whether it did.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request) bool {
	status, detail := 0, ""

	switch {
	case s.o.Token == "":
	case r.Header.Get("Authorization") == "":
		status, detail = http.StatusUnauthorized, "Missing Authorization header"
	case bearer.Token(r) == "":
		status, detail = http.StatusUnauthorized, "Invalid Authorization header"
	case !bearer.Has(r, s.o.Token):
		status, detail = http.StatusForbidden, "Invalid token"
	}

	if status != 0 {
		answer(w, status, map[string]string{"detail": detail})
	}

	return status != 0
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// the client may be gone
	_ = json.NewEncoder(w).Encode(v)
}
