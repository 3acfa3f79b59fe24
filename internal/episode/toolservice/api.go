package toolservice

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/bearer"
)

const (
	// maxRequest bounds a request, in bytes: the arguments of a tool are bounded to 8 MiB, and JSON in JSON
	// may be longer.
	maxRequest = 20 << 20
	// maxWait bounds how long a request waits for an episode that is not open yet.
	maxWait = 30 * time.Second
)

// Handler serves the episodes to the roles of the deployment. Every request needs the token.
//
//	GET  /episodes/{id}?wait=5s                 → episode.Status
//	POST /episodes/{id}/calls   episode.Call    → episode.Answer, at the end of the call
//	POST /episodes/{id}/join    {"client": …}   → episode.Status
//	POST /episodes/{id}/submit  episode.Call   → 204
//	POST /episodes/{id}/list    {"path": …, "recursive": …, "limit": …} → {"entries": […], "more": …}
//	GET  /episodes/{id}/tar?path=…&names=workdir → a tar
//
// A sandbox that takes no calls is a fault.Unavailable.
func (t *Table) Handler(token string, log *slog.Logger) http.Handler {
	a := api{table: t, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /episodes/{id}", a.answering(a.status))
	mux.HandleFunc("POST /episodes/{id}/calls", a.answering(a.call))
	mux.HandleFunc("POST /episodes/{id}/join", a.answering(a.join))
	mux.HandleFunc("POST /episodes/{id}/submit", a.answering(a.submit))
	mux.HandleFunc("POST /episodes/{id}/list", a.answering(a.list))
	mux.HandleFunc("GET /episodes/{id}/tar", a.answering(a.tar))

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !bearer.Has(r, token) {
			fail(w, fault.New(fault.Unauthorized, "wrong or missing token"))
			return
		}

		mux.ServeHTTP(w, r)
	})
}

type api struct {
	table *Table
	log   *slog.Logger
}

// answering calls do with the episode in the path, and writes its error.
func (a api) answering(do func(http.ResponseWriter, *http.Request, *Episode) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var wait time.Duration

		if text := r.URL.Query().Get("wait"); text != "" {
			var err error
			if wait, err = time.ParseDuration(text); err != nil {
				fail(w, fault.Field("wait", "%q is not a duration such as 5s", text))
				return
			}
		}

		e, err := a.table.Get(r.Context(), r.PathValue("id"), min(wait, maxWait))
		if err == nil {
			err = do(w, r, e)
		}

		if err != nil {
			fail(w, err)
		}
	}
}

func (a api) status(w http.ResponseWriter, _ *http.Request, e *Episode) error {
	return reply(w, e.Status())
}

func (a api) call(w http.ResponseWriter, r *http.Request, e *Episode) error {
	c, err := read[episode.Call](w, r)
	if err != nil {
		return err
	}

	answer, err := e.Call(r.Context(), c)
	if err != nil {
		return err
	}

	return reply(w, answer)
}

func (a api) join(w http.ResponseWriter, r *http.Request, e *Episode) error {
	c, err := read[episode.Call](w, r)
	if err != nil {
		return err
	}

	status, err := e.Join(c.Client)
	if err != nil {
		return err
	}

	return reply(w, status)
}

func (a api) submit(w http.ResponseWriter, r *http.Request, e *Episode) error {
	c, err := read[episode.Call](w, r)
	if err == nil {
		err = e.Submit(c)
	}

	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}

	return err
}

func (a api) list(w http.ResponseWriter, r *http.Request, e *Episode) error {
	in, err := read[struct {
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
		Limit     int    `json:"limit"`
	}](w, r)
	if err != nil {
		return err
	}

	entries, more, err := list(r.Context(), e.o.Files, in.Path, in.Recursive, in.Limit)
	if err != nil {
		return err
	}

	return reply(w, map[string]any{"entries": entries, "more": more})
}

// tar streams a tar. An error in the middle aborts the response, so that no reader takes a partial tar for a whole one.
func (a api) tar(w http.ResponseWriter, r *http.Request, e *Episode) error {
	at, out := r.URL.Query().Get("path"), &tarResponse{ResponseWriter: w}

	send := pack
	if r.URL.Query().Get("names") != "workdir" {
		// a server of an earlier release
		send = copyTar
	}

	err := send(r.Context(), e.o.Files, at, out)
	if err != nil && out.started {
		a.log.Warn("tar aborted", "sandbox", e.o.ID, "error", err)
		panic(http.ErrAbortHandler)
	}

	return err
}

// tarResponse is a response that begins with the first byte of its tar.
type tarResponse struct {
	http.ResponseWriter
	started bool
}

// Write implements io.Writer.
func (r *tarResponse) Write(p []byte) (int, error) {
	if !r.started {
		r.started = true
		r.Header().Set("Content-Type", "application/x-tar")
	}

	return r.ResponseWriter.Write(p)
}

func read[T any](w http.ResponseWriter, r *http.Request) (in T, err error) {
	err = json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&in)
	return in, fault.Wrap(fault.Invalid, err, "request body")
}

func reply(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "encode the answer")
	}

	w.Header().Set("Content-Type", "application/json")
	// the caller may be gone
	_, _ = w.Write(body)

	return nil
}

func fail(w http.ResponseWriter, err error) {
	kind := fault.KindOf(err)
	// strings always marshal
	body, _ := json.Marshal(episode.Failure{Kind: kind, Message: err.Error()})

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(fault.EdgeOf(kind).HTTPStatus)
	_, _ = w.Write(body)
}
