package envserver

import (
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/trajectory/arrays"
)

const (
	jsonLines media = "application/x-ndjson"
	npzFile   media = "application/zip"
)

func (s *Server) traceRoute() route {
	rt := left("/trace", s.getTrace, "get_trace", "Every model call of a rollout that is done; 409 before", []media{jsonLines, npzFile})
	rt.says.reads = traceRequest{}
	rt.says.refuses = append(rt.says.refuses, http.StatusUnprocessableEntity)
	return rt
}

func (s *Server) getTrace(w http.ResponseWriter, r *http.Request) {
	q, err := parameters(r, "format")
	if err != nil {
		writeRefusal(w, err)
		return
	}
	format := or(q.Get("format"), "jsonl")
	if format != "jsonl" && format != "npz" {
		writeRefusal(w, fault.Field("format", "want jsonl or npz, got %q", format))
		return
	}
	lines, err := s.leftBy(r, "trace", "trace")
	if err != nil {
		writeRefusal(w, err)
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
	// All is read before the answer begins: the arrays come one after another, and a trace that cannot be read is an error.
	turns, err := arrays.Read(lines)
	if err != nil {
		writeRefusal(w, err)
		return
	}
	pour(w, npzFile, turns.Write)
}
