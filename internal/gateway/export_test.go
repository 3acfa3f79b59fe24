package gateway

import (
	"net/http"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Rewritten is the body that goes upstream; the fuzz test needs it without the network between.
func Rewritten(body []byte, m rollout.Model) ([]byte, error) {
	a, err := readAsk(dialects()[0], http.Header{}, body, m, true)
	if err != nil {
		return nil, err
	}
	return a.body, nil
}
