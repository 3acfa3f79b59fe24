package envserver

import (
	"errors"
	"net/http"
	"os"
	"runtime"
	"time"

	"github.com/rolloutd/rolloutd/envserver/internal/intake"
	"github.com/rolloutd/rolloutd/envserver/internal/issue"
	"github.com/rolloutd/rolloutd/envserver/internal/pyjson"
)

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := encodeReply(v)
	if err != nil {
		status, body.pieces = http.StatusInternalServerError, [][]byte{[]byte(`{"detail":"Internal Server Error"}`)}
	}
	writeBytes(w, status, body.pieces...)
	runtime.KeepAlive(body.text)
}

func writeBytes(w http.ResponseWriter, status int, body ...[]byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	for _, piece := range body {
		_, _ = w.Write(piece) // a client that is gone cannot be told
	}
}

// writeDetail writes an error body of the reference's form.
func writeDetail(w http.ResponseWriter, status int, detail string) {
	writeJSON(w, status, problem{Detail: detail})
}

// writeInvalid says what is wrong with a request's body.
func writeInvalid(w http.ResponseWriter, found issue.List) {
	writeJSON(w, http.StatusUnprocessableEntity, validationProblem{found})
}

// body reads a request's body, within the limits of size, time and memory. The caller calls release when it has decoded the body. The client
// has its answer, and nothing is to be released, when ok is false.
func (s *Server) body(w http.ResponseWriter, r *http.Request) (data []byte, release func(), ok bool) {
	// What is no connection (a test's recorder) has no deadline either; the server then bounds it itself, or nothing needs to.
	slow := http.NewResponseController(w)
	_ = slow.SetReadDeadline(time.Now().Add(s.o.BodyTimeout))
	data, release, err := s.memory.Read(http.MaxBytesReader(w, r.Body, s.o.MaxMessage), s.o.MaxMessage)
	var tooLarge *http.MaxBytesError
	var over *intake.TooLargeError
	switch {
	case errors.As(err, &tooLarge), errors.As(err, &over):
		writeDetail(w, http.StatusRequestEntityTooLarge, "Request body too large")
	case errors.Is(err, intake.ErrBusy):
		w.Header().Set("Retry-After", "1")
		writeDetail(w, http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, os.ErrDeadlineExceeded):
		writeDetail(w, http.StatusRequestTimeout, "The body did not come in time")
	case err != nil:
		writeDetail(w, http.StatusBadRequest, "There was an error reading the body")
	}
	if err == nil { // else the deadline stays, lest the server wait for the rest of the body before it lets the client go
		_ = slow.SetReadDeadline(time.Time{})
	}
	return data, release, err == nil
}

// object reads a body that is a JSON object. An empty body and null give a nil map without issues.
func object(data []byte) (map[string]any, issue.List) {
	if len(data) == 0 {
		return nil, nil
	}
	v, err := pyjson.Decode(data)
	var syntax *pyjson.SyntaxError
	if errors.As(err, &syntax) {
		return nil, issue.List{{Type: "json_invalid", Loc: []any{"body", syntax.Pos}, Msg: "JSON decode error",
			Input: map[string]any{}, Ctx: map[string]any{"error": syntax.Msg}}}
	}
	if v == nil {
		return nil, nil
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, issue.List{{Type: "model_attributes_type", Loc: []any{"body"},
			Msg: "Input should be a valid dictionary or object to extract fields from", Input: issue.Shown(v)}}
	}
	return obj, nil
}
