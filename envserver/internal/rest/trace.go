package rest

import (
	"cmp"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

const (
	jsonLines api.Media = "application/x-ndjson"
	npzFile   api.Media = "application/zip"
)

func (a *API) traceRoute() api.Route {
	rt := finishedRoute(
		"/trace",
		a.getTrace,
		"get_trace",
		"Get every model call of a rollout that has finished or awaits its score. 409 while it runs",
		[]any{
			jsonLines, npzFile, formats.ATIF{},
		},
	)
	rt.Operation.Reads = traceRequest{}

	return rt
}

func (a *API) getTrace(w http.ResponseWriter, r *http.Request) {
	format := cmp.Or(r.URL.Query().Get("format"), "jsonl")
	if format != "jsonl" && format != "npz" && format != atifFormat {
		httpio.WriteRefusal(w, fault.Field("format", "must be jsonl, npz or %s, got %q", atifFormat, format))
		return
	}

	lines, err := a.openTrace(r)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer lines.Close()

	if format == atifFormat {
		a.writeATIF(w, r, lines)
		return
	}

	if format == "jsonl" {
		writeBody(w, jsonLines, func(w io.Writer) error {
			_, err := io.Copy(w, lines)
			return err
		})

		return
	}

	a.writeArrays(w, r, lines)
}

// openTrace opens the trace of a rollout that has finished, or whose client is to score its turns.
func (a *API) openTrace(r *http.Request) (io.ReadCloser, error) {
	id := chi.URLParam(r, "id")

	state, err := a.Rollouts.State(r.Context(), id)
	if err != nil {
		return nil, err
	}

	if state.Phase == rollout.PhaseScoring {
		return a.Rollouts.Open(r.Context(), id, "trace")
	}

	return a.blobs(r, "trace", "trace")
}

// atifFormat is the format of a trace for tools of Harbor.
const atifFormat = "atif"

func (a *API) writeATIF(w http.ResponseWriter, r *http.Request, lines io.Reader) {
	x, ok := a.export(w, r, exportmemory.Shapes)
	if !ok {
		return
	}
	defer x.leave()

	t, err := formats.ReadATIF(lines, chi.URLParam(r, "id"))
	httpio.WriteAnswer(w, t, err)
}

// writeArrays reads the whole trace before the answer begins: the arrays are sent one after another, and an
// unreadable trace is an error.
func (a *API) writeArrays(w http.ResponseWriter, r *http.Request, lines io.Reader) {
	x, ok := a.export(w, r, exportmemory.Arrays)
	if !ok {
		return
	}
	defer x.leave()

	turns, err := formats.ReadArrays(lines, formats.MaxArrayBytes)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	x.Shrink(turns.Bytes())
	writeBody(w, npzFile, turns.Write)
}
