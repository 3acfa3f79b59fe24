package upstream

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// engineRest is for how long an engine that gave no answer is passed over, where there is another.
const engineRest = 15 * time.Second

// EnginesOf are the engines behind a list of base URLs, in a rollout's own order: it stays with the first, which has its prompts
// in its cache, and when that is lost all its calls move on to the same next one. The order is by a hash (rendezvous), so
// that rollouts spread evenly, a restart changes nothing, and an engine more or less moves only the rollouts it must.
func EnginesOf(baseURLs, rolloutID string) []string {
	urls := strings.Split(baseURLs, ",")
	slices.SortStableFunc(urls, func(a, b string) int { return bytes.Compare(weightOf(a, rolloutID), weightOf(b, rolloutID)) })
	return urls
}

func weightOf(engine, rolloutID string) []byte {
	sum := sha256.Sum256([]byte(rolloutID + " " + engine))
	return sum[:]
}

// NameOf is an engine's base URL as a record has it: without what may be secret in it. The path stays, for a router may have
// several engines under one host.
func NameOf(engine string) string {
	u, err := url.Parse(engine)
	if err != nil {
		return "" // it cannot be asked either
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// health knows which engines do not answer.
type health struct {
	mu   sync.Mutex
	lost map[string]time.Time // by URL: when it last gave no answer; what is long ago may be gone
}

// pick is the first of the engines that is not known to be lost. When all are, it is the one that was lost first: a hiccup of the
// second must not leave calls with a first that is gone.
func (h *health) pick(engines []string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest := engines[0]
	for _, e := range engines {
		at, ok := h.lost[e]
		if !ok || time.Since(at) > engineRest {
			return e
		}
		if at.Before(h.lost[oldest]) {
			oldest = e
		}
	}
	return oldest
}

// saw notes whether an engine gave no answer at all.
func (h *health) saw(engine string, none bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if none {
		maps.DeleteFunc(h.lost, func(_ string, at time.Time) bool { return time.Since(at) > engineRest })
		h.lost[engine] = time.Now()
		return
	}
	delete(h.lost, engine)
}

// LostCount is how many lost engines are kept in memory.
func (h *health) LostCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lost)
}
