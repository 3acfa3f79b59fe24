package gateway

import (
	"io"
	"net/http"
)

// getTrace streams. A failure on the way breaks the response off, so that no reader takes half a trace for a whole one.
func (s *Server) getTrace(w http.ResponseWriter, req *http.Request) error {
	r, err := s.route(req.PathValue("id"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/jsonl")
	out := &countingWriter{w: w}
	if r.trace == nil {
		return nil
	}
	if err := r.trace.Export(out); err != nil {
		if out.n == 0 {
			return err
		}
		s.log.Error("trace broken off", "route", r.ID, "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

type countingWriter struct {
	w io.Writer
	n int
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += n
	return n, err
}
