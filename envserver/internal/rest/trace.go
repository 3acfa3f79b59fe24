package rest

import (
	"cmp"
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/exports"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/trajectory/arrays"
)

const (
	jsonLines api.Media = "application/x-ndjson"
	npzFile   api.Media = "application/zip"
)

func (a *API) traceRoute() api.Route {
	rt := left("/trace", a.getTrace, "get_trace", "Every model call of a rollout that is done; 409 before", []any{jsonLines, npzFile})
	rt.Says.Reads = traceRequest{}
	rt.Says.Refuses = append(rt.Says.Refuses, http.StatusUnprocessableEntity)
	return rt
}

func (a *API) getTrace(w http.ResponseWriter, r *http.Request) {
	q, err := parameters(r, "format")
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	format := cmp.Or(q.Get("format"), "jsonl")
	if format != "jsonl" && format != "npz" {
		httpio.WriteRefusal(w, fault.Field("format", "want jsonl or npz, got %q", format))
		return
	}
	lines, err := a.leftBy(r, "trace", "trace")
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer lines.Close()
	if format == "jsonl" {
		pour(w, jsonLines, func(w io.Writer) error {
			_, err := io.Copy(w, lines)
			return err
		})
		return
	}
	a.pourArrays(w, r, lines)
}

// pourArrays reads all before the answer begins: the arrays come one after another, and a trace that cannot be read is an error.
func (a *API) pourArrays(w http.ResponseWriter, r *http.Request, lines io.Reader) {
	x, ok := a.export(w, r, exports.Arrays)
	if !ok {
		return
	}
	defer x.leave()
	turns, err := arrays.Read(lines, arrays.MaxBytes)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	x.Shrink(turns.Bytes())
	pour(w, npzFile, turns.Write)
}
