package httpio

import (
	"errors"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// WriteJSON answers with v as JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	body, err := reply.Encode(v)
	if err != nil {
		status, body.Pieces = http.StatusInternalServerError, [][]byte{[]byte(`{"detail":"Internal Server Error"}`)}
	}

	WriteBytes(w, status, body.Pieces...)
	runtime.KeepAlive(body.Text)
}

// WriteBytes answers with encoded JSON, in pieces.
func WriteBytes(w http.ResponseWriter, status int, body ...[]byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)

	for _, piece := range body {
		// the client may be gone
		_, _ = w.Write(piece)
	}
}

// WriteDetail writes an error body in the reference's form.
func WriteDetail(w http.ResponseWriter, status int, detail string) {
	WriteJSON(w, status, reply.Problem{Detail: detail})
}

// WriteAnswer writes v as JSON, or the refusal of err.
func WriteAnswer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		WriteRefusal(w, err)
		return
	}

	WriteJSON(w, http.StatusOK, v)
}

// WriteInvalid writes the validation errors of a request's body.
func WriteInvalid(w http.ResponseWriter, found validation.List) {
	WriteJSON(w, http.StatusUnprocessableEntity, reply.ValidationProblem{Detail: found})
}

// Bodies reads the bodies of requests.
type Bodies struct {
	// the memory of all bodies
	Memory *membudget.Memory

	// bytes of one body
	Max int64

	// bounds the transfer of one body
	Timeout time.Duration
}

// Read reads a request's body. The caller calls release when it has decoded the body. If ok is false, the
// request has been answered and the caller must not call release.
func (b Bodies) Read(w http.ResponseWriter, r *http.Request) (data []byte, release func(), ok bool) {
	if !Plain(w, r) {
		return nil, nil, false
	}

	// Errors are ignored: a test's recorder has no deadlines.
	slow := http.NewResponseController(w)
	_ = slow.SetReadDeadline(time.Now().Add(b.Timeout))
	data, release, err := b.Memory.Of(access.CallerOf(r.Context()).Name).
		Read(http.MaxBytesReader(w, r.Body, b.Max), b.Max)

	var (
		tooLarge *http.MaxBytesError
		over     *membudget.TooLargeError
	)
	switch {
	case errors.As(err, &tooLarge), errors.As(err, &over):
		WriteDetail(w, http.StatusRequestEntityTooLarge, "Request body too large")
	case errors.Is(err, membudget.ErrBusy):
		w.Header().Set("Retry-After", "1")
		WriteDetail(w, http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, os.ErrDeadlineExceeded):
		WriteDetail(w, http.StatusRequestTimeout, "The body did not come in time")
	case err != nil:
		WriteDetail(w, http.StatusBadRequest, "There was an error reading the body")
	}
	// else keep the deadline: the server reads the rest of the body before it closes the connection
	if err == nil {
		_ = slow.SetReadDeadline(time.Time{})
	}

	return data, release, err == nil
}

// Decode reads a request's body and decodes it. If ok is false, the request has been answered.
func Decode[T any](
	b Bodies,
	w http.ResponseWriter,
	r *http.Request,
	decode func([]byte) (T, validation.List),
) (v T, ok bool) {
	data, release, ok := b.Read(w, r)
	if !ok {
		return v, false
	}

	v, found := decode(data)

	release()

	if len(found) > 0 {
		WriteInvalid(w, found)
		return v, false
	}

	return v, true
}

// Plain refuses a request whose body is compressed, and reports whether it is not.
func Plain(w http.ResponseWriter, r *http.Request) bool {
	coding := r.Header.Get("Content-Encoding")
	if coding == "" || strings.EqualFold(coding, "identity") {
		return true
	}

	w.Header().Set("Accept-Encoding", "identity")
	WriteDetail(w, http.StatusUnsupportedMediaType,
		"Content-Encoding must be absent: the server takes plain bodies only")

	return false
}

// Object reads a body that is a JSON object. An empty body and null give a nil map without issues.
func Object(data []byte) (map[string]any, validation.List) {
	if len(data) == 0 {
		return nil, nil
	}

	v, err := jsonvalue.Decode(data)

	var syntax *jsonvalue.SyntaxError
	if errors.As(err, &syntax) {
		return nil, validation.List{{Type: "json_invalid", Loc: []any{"body", syntax.Pos}, Msg: "JSON decode error",
			Input: map[string]any{}, Ctx: map[string]any{"error": syntax.Msg}}}
	}

	if v == nil {
		return nil, nil
	}

	obj, ok := v.(map[string]any)
	if !ok {
		return nil, validation.List{{Type: "model_attributes_type", Loc: []any{"body"},
			Msg: "Input should be a valid dictionary or object to extract fields from", Input: validation.Excerpt(v)}}
	}

	return obj, nil
}

// WriteRefusal writes the error of a request that gets no session or no rollout.
func WriteRefusal(w http.ResponseWriter, err error) {
	var (
		full    *session.CapacityError
		unknown *session.UnknownError
		episode *session.UnknownEpisodeError
		held    *session.HeldError
	)
	switch {
	case errors.As(err, &full):
		WriteJSON(w, http.StatusServiceUnavailable, reply.Problem{
			Detail:    reply.Explain(err),
			Occupancy: &reply.Occupancy{Active: full.Active, Max: full.Max},
		})
	case errors.As(err, &unknown), errors.As(err, &episode):
		WriteDetail(w, http.StatusNotFound, reply.Explain(err))
	case errors.As(err, &held):
		WriteDetail(w, http.StatusConflict, reply.Explain(err))
	default:
		kind := fault.KindOf(err)
		WriteJSON(w, fault.EdgeOf(kind).HTTPStatus, reply.Problem{Detail: reply.Explain(err), Kind: kind})
	}
}
