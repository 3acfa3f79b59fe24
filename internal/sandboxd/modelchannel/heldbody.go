package modelchannel

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// heldBody is the body of a call, kept until the call is answered: the gateway may go away before that.
type heldBody struct {
	data    []byte
	release func() // gives the room back to other calls; may be called more than once
}

// holdBody reads the body when there is room for it among all that are held. A body of unknown length takes the room of the
// largest until it has been read. One that does not arrive in time is an error: it must not keep others out.
func (m *Model) holdBody(w http.ResponseWriter, r *http.Request) (*heldBody, error) {
	size := r.ContentLength
	if size > maxCallBody {
		return nil, &http.MaxBytesError{Limit: maxCallBody}
	}
	if size < 0 {
		size = maxCallBody
	}
	if err := m.held.Acquire(r.Context(), size); err != nil {
		return nil, err
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(m.bodyTime)) // a connection without deadlines is one of a test
	data, err := readBody(http.MaxBytesReader(w, r.Body, maxCallBody), r.ContentLength)
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		m.held.Release(size)
		return nil, err
	}
	length := int64(len(data))
	m.held.Release(size - length)
	return &heldBody{data: data, release: sync.OnceFunc(func() { m.held.Release(length) })}, nil
}

// readBody reads size bytes, or all where size is not known (-1).
func readBody(r io.Reader, size int64) ([]byte, error) {
	if size < 0 {
		return io.ReadAll(r)
	}
	data := make([]byte, size)
	_, err := io.ReadFull(r, data)
	return data, err
}
