package envserver

import (
	"errors"
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/arrays"
	"github.com/rolloutd/rolloutd/internal/fault"
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
	format := or(r.URL.Query().Get("format"), "jsonl")
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

// leftBy reads what the finished rollout that a request names left under the names, one after another.
func (s *Server) leftBy(r *http.Request, what string, names ...string) (io.ReadCloser, error) {
	state, err := s.done(r)
	if err != nil {
		return nil, err
	}
	var left parts
	for _, name := range names {
		part, err := s.o.Rollouts.Open(r.Context(), state.ID, name)
		switch {
		case err == nil:
			left = append(left, part)
		case !fault.Is(err, fault.NotFound):
			return nil, errors.Join(err, left.Close())
		}
	}
	if len(left) == 0 {
		return nil, fault.New(fault.NotFound, "rollout %s left no %s", state.ID, what)
	}
	return left.joined(), nil
}

// parts are read one after another and closed together.
type parts []io.ReadCloser

func (p parts) joined() io.ReadCloser {
	var all []io.Reader
	for _, part := range p {
		all = append(all, part)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(all...), p}
}

// Close closes all parts.
func (p parts) Close() error {
	var errs []error
	for _, part := range p {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}
