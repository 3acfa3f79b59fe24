package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/durable"
)

// engineRest is for how long an engine that did not answer is skipped while another one is available.
const engineRest = 15 * time.Second

// EnginesOf returns the engines of a list of base URLs in a rollout's own order. A rollout stays with the
// first, which has its prompts in its cache; when that is lost, all its calls move to the same next one.
// The order is by rendezvous hashing: rollouts spread evenly, a restart changes nothing, and adding or
// removing an engine moves only the rollouts that it must.
func EnginesOf(baseURLs, rolloutID string) []string {
	urls := strings.Split(baseURLs, ",")
	slices.SortStableFunc(urls, func(a, b string) int {
		return bytes.Compare(weightOf(a, rolloutID), weightOf(b, rolloutID))
	})

	return urls
}

func weightOf(engine, rolloutID string) []byte {
	sum := sha256.Sum256([]byte(rolloutID + " " + engine))
	return sum[:]
}

// NameOf returns an engine's base URL for records, without parts that may be secret. It keeps the path,
// since a router may have several engines under one host.
func NameOf(engine string) string {
	u, err := url.Parse(engine)
	if err != nil {
		// such a URL cannot be called
		return ""
	}

	u.User, u.RawQuery, u.Fragment = nil, "", ""

	return u.String()
}

// health records the engines that do not answer.
type health struct {
	mu sync.Mutex

	// by URL: time of the latest failure; old entries may be removed
	failedAt map[string]time.Time
}

// pick returns the first engine that is not known to be lost. If all are, it returns the one that was lost
// first: after a brief failure of the second, calls must not stay with a first that is gone.
func (h *health) pick(engines []string) string {
	h.mu.Lock()
	defer h.mu.Unlock()

	oldest := engines[0]
	for _, e := range engines {
		at, ok := h.failedAt[e]
		if !ok || time.Since(at) > engineRest {
			return e
		}

		if at.Before(h.failedAt[oldest]) {
			oldest = e
		}
	}

	return oldest
}

// record notes whether an engine gave any answer.
func (h *health) record(engine string, answered bool) {
	h.mu.Lock()
	defer h.mu.Unlock()

	if !answered {
		maps.DeleteFunc(h.failedAt, func(_ string, at time.Time) bool { return time.Since(at) > engineRest })
		h.failedAt[engine] = time.Now()

		return
	}

	delete(h.failedAt, engine)
}

// allLost reports whether none of the engines gave an answer when it was tried last.
func (h *health) allLost(engines []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	return !slices.ContainsFunc(engines, func(engine string) bool {
		_, lost := h.failedAt[engine]
		return !lost
	})
}

// LostCount returns the number of lost engines in memory.
func (h *health) LostCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()

	return len(h.failedAt)
}

const (
	// maxGiven bounds the remembered engines whose addresses clients gave; those of the configuration are few.
	maxGiven = 1024
	// maxAnsweredFile bounds the file, in bytes.
	maxAnsweredFile = 8 << 20
	// saveAgain is the time from a failed write of the file to the next one.
	saveAgain = time.Second
)

// Answered remembers the engines that have answered, also across restarts of the gateway. An engine that
// refuses connections and has answered before is away, and returns; one that never has is usually a wrong
// address. It is safe for concurrent use; a nil one remembers nothing.
type Answered struct {
	file string

	mu sync.Mutex

	// by digest of the base URL, which may have a secret
	of      map[string]answeredEngine
	unsaved bool

	// a call writes the file
	saving bool

	// when that failed last
	failedAt time.Time
}

// answeredEngine is an engine that has answered. Field names are a stored format.
type answeredEngine struct {
	// time of the first answer
	At time.Time `json:"at"`

	// a client gave the address
	Given bool `json:"given,omitempty"`
}

// LoadAnswered reads the engines from a file, which may be missing.
func LoadAnswered(file string) (*Answered, error) {
	a := &Answered{file: file, of: map[string]answeredEngine{}}

	raw, err := durable.Read(file)
	if errors.Is(err, os.ErrNotExist) {
		return a, nil
	}

	if err == nil && len(raw) > maxAnsweredFile {
		err = errors.New("larger than it can be")
	}

	if err == nil {
		err = json.Unmarshal(raw, &a.of)
	}

	if err != nil {
		return nil, fmt.Errorf("endpoints that have answered, in %s: %w", file, err)
	}

	return a, nil
}

// any reports whether one of the engines has answered before.
func (a *Answered) any(engines []string) bool {
	if a == nil {
		return false
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	for _, engine := range engines {
		if _, ok := a.of[digestOf(engine)]; ok {
			return true
		}
	}

	return false
}

// noteAnswer records that an engine has answered. A file that cannot be written is written with an answer after
// saveAgain; until then this process remembers the engine.
func (a *Answered) noteAnswer(engine string, given bool) {
	if a == nil {
		return
	}

	raw := a.toSave(digestOf(engine), given)
	if raw == nil {
		return
	}

	// a write may take long, and other calls do not wait for it
	err := durable.Replace(a.file, raw)

	a.mu.Lock()
	defer a.mu.Unlock()

	a.saving = false
	if err != nil {
		a.unsaved, a.failedAt = true, time.Now()
	}
}

// toSave notes an answer, and returns the content of the file that the caller writes; nil: it writes none.
func (a *Answered) toSave(key string, given bool) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()

	if before, ok := a.of[key]; !ok || before.Given && !given {
		a.of[key] = answeredEngine{At: time.Now().UTC(), Given: given}
		a.forgetOldest()
		a.unsaved = true
	}

	if !a.unsaved || a.saving || time.Since(a.failedAt) < saveAgain {
		return nil
	}

	raw, err := json.Marshal(a.of)
	if err != nil {
		// it is made of plain values
		return nil
	}

	a.unsaved, a.saving = false, true

	return raw
}

// forgetOldest keeps at most maxGiven engines of clients. a.mu is held.
func (a *Answered) forgetOldest() {
	given, oldest := 0, ""

	for key, e := range a.of {
		if !e.Given {
			continue
		}

		given++

		if oldest == "" || e.At.Before(a.of[oldest].At) {
			oldest = key
		}
	}

	if given > maxGiven {
		delete(a.of, oldest)
	}
}

func digestOf(engine string) string {
	sum := sha256.Sum256([]byte(engine))
	return hex.EncodeToString(sum[:])
}
