package daemon

import (
	"bytes"
	"io"
	"net/http"
)

// memoryTransport answers requests by a handler of this process.
type memoryTransport struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t memoryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	w := &memoryWriter{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(w, req.Clone(req.Context()))

	if err := req.Context().Err(); err != nil {
		return nil, err
	}

	return &http.Response{
		StatusCode:    w.status,
		Status:        http.StatusText(w.status),
		Header:        w.header,
		Request:       req,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Body:          io.NopCloser(&w.body),
		ContentLength: int64(w.body.Len()),
	}, nil
}

// memoryWriter implements http.ResponseWriter.
type memoryWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *memoryWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *memoryWriter) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *memoryWriter) Write(p []byte) (int, error) { return w.body.Write(p) }
