package admin

import (
	"encoding/json"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/input/bearer"
)

// maxRequest bounds a request of the admin and the trainer API, in bytes.
const maxRequest = 1 << 20

// authorized requires one of the tokens.
func authorized(next http.Handler, tokens ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !bearer.Has(req, tokens...) {
			fail(w, fault.New(fault.Unauthorized, "wrong or missing token"))
			return
		}

		next.ServeHTTP(w, req)
	})
}

func answering(do func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if err := do(w, req); err != nil {
			fail(w, err)
		}
	}
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// the caller may have hung up
	_, _ = w.Write(body)
}

func fail(w http.ResponseWriter, err error) {
	kind := fault.KindOf(err)
	// strings always encode
	body, _ := json.Marshal(gatewayapi.FailureBody{Kind: kind, Message: err.Error()})
	writeJSON(w, fault.EdgeOf(kind).HTTPStatus, body)
}

func readRequest(w http.ResponseWriter, req *http.Request, into any) error {
	err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxRequest)).Decode(into)
	return fault.Wrap(fault.Invalid, err, "request body")
}

// done answers 204 if err is nil.
func done(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}

	return err
}

func encode(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "encode the answer")
	}

	writeJSON(w, http.StatusOK, body)

	return nil
}
