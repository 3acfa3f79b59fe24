package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Remembered is how many upstreams and lost engines the server keeps in memory.
func (s *Server) Remembered() (upstreams, lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upstream.engines.mu.Lock()
	defer s.upstream.engines.mu.Unlock()
	return len(s.admissions), len(s.upstream.engines.lost)
}

// MannersOf is how many endpoints' manners are kept of so many, each of which was learnt, known, and learnt again.
func MannersOf(endpoints int) (kept int, known bool) {
	m, known := &manners{}, true
	for i := range endpoints {
		place := strconv.Itoa(i)
		m.learn(place, []quirk{noCounts})
		m.learn(place, []quirk{noLogprobs})
		m.learn(place, nil)
		known = known && len(m.of(place)) == 2
	}
	return len(m.known), known
}

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
