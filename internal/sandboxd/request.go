package sandboxd

import (
	"encoding/json"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxJSON bounds a JSON request body, in bytes: a Process with all its stdin.
const maxJSON = 96 << 20

func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxJSON)).Decode(v); err != nil {
		return fault.Wrap(fault.Invalid, err, "request body")
	}

	return nil
}
