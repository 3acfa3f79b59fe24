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

// engineRest is for how long an engine that did not answer is skipped while another one is available.
const engineRest = 15 * time.Second

// EnginesOf returns the engines of a list of base URLs in a rollout's own order. A rollout stays with the first, which has its prompts in
// its cache; when that is lost, all its calls move to the same next one. The order is by rendezvous hashing: rollouts spread evenly, a
// restart changes nothing, and adding or removing an engine moves only the rollouts that it must.
func EnginesOf(baseURLs, rolloutID string) []string {
	urls := strings.Split(baseURLs, ",")
	slices.SortStableFunc(urls, func(a, b string) int { return bytes.Compare(weightOf(a, rolloutID), weightOf(b, rolloutID)) })
	return urls
}

func weightOf(engine, rolloutID string) []byte {
	sum := sha256.Sum256([]byte(rolloutID + " " + engine))
	return sum[:]
}

// NameOf returns an engine's base URL for records, without parts that may be secret. It keeps the path, since a router may have several
// engines under one host.
func NameOf(engine string) string {
	u, err := url.Parse(engine)
	if err != nil {
		return "" // such a URL cannot be called
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// health records the engines that do not answer.
type health struct {
	mu   sync.Mutex
	lost map[string]time.Time // by URL: time of the latest failure; old entries may be removed
}

// pick returns the first engine that is not known to be lost. If all are, it returns the one that was lost first: after a brief failure
// of the second, calls must not stay with a first that is gone.
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

// saw records whether an engine gave no answer at all.
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

// LostCount returns the number of lost engines in memory.
func (h *health) LostCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lost)
}
