package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Rewritten is the body that goes upstream in one of the APIs, and the account of what was changed; the fuzz test needs them
// without the network between.
func Rewritten(api int, body []byte, m rollout.Model) ([]byte, json.RawMessage, error) {
	all := dialects()
	a, err := readAsk(all[api%len(all)], http.Header{}, body, m, true)
	if err != nil {
		return nil, nil, err
	}
	return a.body, a.changes.JSON(), nil
}
