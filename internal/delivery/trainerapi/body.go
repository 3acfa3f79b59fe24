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

	"golang.org/x/sync/semaphore"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
)

// bodies reads request bodies within bounds.
type bodies struct {
	most int64
	// memory bounds the memory of all bodies together. A compressed body reserves its maximum size.
	memory *semaphore.Weighted
}

func newBodies(most int64) bodies {
	return bodies{most, semaphore.NewWeighted(2 * most)}
}

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

	release = func() { b.memory.Release(size) }

	body, err := b.readAll(r, size, zipped)
	if err == nil {
		return body, release, true
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

func (b bodies) readAll(r *http.Request, size int64, zipped bool) ([]byte, error) {
	var out bytes.Buffer

	from := io.Reader(r.Body)

	switch {
	case zipped:
		z, err := gzip.NewReader(r.Body)
		if errors.Is(err, io.EOF) {
			// an empty body
			return nil, nil
		}

		if err != nil {
			return nil, errGzip
		}

		from = z
	case r.ContentLength >= 0:
		// ReadFrom would else grow a full buffer to see the end
		out.Grow(int(size) + bytes.MinRead)
	}

	n, err := out.ReadFrom(io.LimitReader(from, b.most+1))
	switch {
	case n > b.most:
		return nil, errLarge
	case err != nil && zipped:
		return nil, errGzip
	}

	return out.Bytes(), err
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
		Depth:    64,
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
