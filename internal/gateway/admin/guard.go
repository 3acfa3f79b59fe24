package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// maxRequest bounds a request of the admin and the trainer API, in bytes.
const maxRequest = 1 << 20

// authorized requires one of the tokens. It compares the hashes of all of them in constant time.
func authorized(next http.Handler, tokens ...string) http.Handler {
	wanted := make([][sha256.Size]byte, len(tokens))
	for i, t := range tokens {
		wanted[i] = sha256.Sum256([]byte(t))
	}

	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")

		got, known := sha256.Sum256([]byte(token)), 0
		for i := range wanted {
			known |= subtle.ConstantTimeCompare(got[:], wanted[i][:])
		}

		if known != 1 {
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
