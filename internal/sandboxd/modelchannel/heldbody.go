package modelchannel

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// heldBody is the body of a call, kept until the call is answered, in case the gateway goes away before.
type heldBody struct {
	data []byte

	// releases its memory; may be called more than once
	release func()
}

// holdBody reads the body when there is memory for it. A body of unknown length reserves the maximum until
// it has been read. One that does not arrive in time is an error: it must not block others.
func (m *Model) holdBody(w http.ResponseWriter, r *http.Request) (*heldBody, error) {
	size := r.ContentLength
	if size > maxCallBody {
		return nil, &http.MaxBytesError{Limit: maxCallBody}
	}

	if size < 0 {
		size = maxCallBody
	}

	if err := m.bodyBytes.Acquire(r.Context(), size); err != nil {
		return nil, err
	}

	control := http.NewResponseController(w)
	// only a test's connection has no deadlines
	_ = control.SetReadDeadline(time.Now().Add(m.bodyTime))
	data, err := readBody(http.MaxBytesReader(w, r.Body, maxCallBody), r.ContentLength)
	_ = control.SetReadDeadline(time.Time{})

	if err != nil {
		m.bodyBytes.Release(size)
		return nil, err
	}

	length := int64(len(data))
	m.bodyBytes.Release(size - length)

	return &heldBody{data: data, release: sync.OnceFunc(func() { m.bodyBytes.Release(length) })}, nil
}

// readBody reads size bytes; size -1: all.
func readBody(r io.Reader, size int64) ([]byte, error) {
	if size < 0 {
		return io.ReadAll(r)
	}

	data := make([]byte, size)
	_, err := io.ReadFull(r, data)

	return data, err
}
