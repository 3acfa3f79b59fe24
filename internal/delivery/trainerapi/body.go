package trainerapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

// bodies reads request bodies within bounds.
type bodies struct {
	most int64
	// memory bounds the memory of all bodies together. A compressed body reserves its maximum size.
	memory *semaphore.Weighted
	// spent holds the buffers of released bodies: new memory would cost as much as reading a body.
	spent *sync.Pool
}

func newBodies(most int64) bodies {
	return bodies{most, semaphore.NewWeighted(2 * most), &sync.Pool{New: func() any { return new(bytes.Buffer) }}}
}

// spare is the room after a body that parseScored uses, in bytes.
const spare = 256

// errGzip is answered in Atropos' words.
var errGzip = errors.New("Invalid gzip payload") //nolint:staticcheck // these are the words

// read returns the body of a request and a function that releases its memory, after which the body must not
// be used. If ok is false, it has answered the request.
func (b bodies) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), ok bool) {
	zipped := strings.Contains(strings.ToLower(r.Header.Get("Content-Encoding")), "gzip")

	size := b.most
	if r.ContentLength >= 0 && !zipped {
		size = r.ContentLength
	}

	if size > b.most {
		http.Error(w, `{"detail":"the body is too large"}`, http.StatusRequestEntityTooLarge)
		return nil, nil, false
	}

	if b.memory.Acquire(r.Context(), size) != nil {
		// the client is gone
		return nil, nil, false
	}
	// the pool holds only these
	buffer := b.spent.Get().(*bytes.Buffer)
	release = func() { b.spent.Put(buffer); b.memory.Release(size) }

	buffer.Reset()

	err := b.fill(buffer, r, size, zipped)
	if err == nil {
		return buffer.Bytes(), release, true
	}

	release()

	status, text := http.StatusBadRequest, `{"detail":"the body could not be read"}`

	switch {
	case errors.Is(err, errGzip):
		text = errGzip.Error()
	case errors.Is(err, errLarge):
		status, text = http.StatusRequestEntityTooLarge, `{"detail":"the body is too large"}`
	}

	http.Error(w, text, status)

	return nil, nil, false
}

var errLarge = errors.New("too large")

func (b bodies) fill(out *bytes.Buffer, r *http.Request, size int64, zipped bool) error {
	if !zipped && r.ContentLength >= 0 {
		out.Grow(int(size) + spare)
		n, err := io.ReadFull(r.Body, out.AvailableBuffer()[:size])
		// in its place already: it never fails
		_, _ = out.Write(out.AvailableBuffer()[:n])

		return err
	}

	from := io.Reader(r.Body)
	if zipped {
		z, err := gzip.NewReader(r.Body)
		if errors.Is(err, io.EOF) {
			// an empty body
			return nil
		}

		if err != nil {
			return errGzip
		}

		from = z
	}

	n, err := out.ReadFrom(io.LimitReader(from, b.most+1))
	switch {
	case n > b.most:
		return errLarge
	case err != nil && zipped:
		return errGzip
	}

	return err
}

// decode decodes a small JSON body into v.
func (s *server) decode(w http.ResponseWriter, r *http.Request, v any) bool {
	body, release, ok := s.bodies.read(w, r)
	if !ok {
		return false
	}
	defer release()

	limited := jsoninput.NewReader(bytes.NewReader(body), jsoninput.Limits{
		Bytes:    1 << 20,
		Elements: 1 << 16,
		Depth:    maxDepth,
	})
	if err := json.NewDecoder(limited).Decode(v); err != nil {
		s.refuse(w, jsoninput.ExplainError("body", err))
		return false
	}

	return true
}

func asField(err error, f **fault.Error) bool { return errors.As(err, f) && (*f).Field != "" }

// required refuses a body without the member.
func required[T any](name string, v *T) error {
	if v == nil {
		return fault.Field(name, "Field required")
	}

	return nil
}

// requiredSmall refuses a body without the number, and an unrealistic one.
func requiredSmall(name string, v *int) error {
	if v == nil {
		return required(name, v)
	}

	return small(name, *v)
}

// small refuses unrealistic numbers, whose sums could overflow.
func small(name string, v int) error {
	if v > math.MaxInt32 || v < math.MinInt32 {
		return fault.Field(name, "must be a whole number from %d to %d, got %d", math.MinInt32, math.MaxInt32, v)
	}

	return nil
}
