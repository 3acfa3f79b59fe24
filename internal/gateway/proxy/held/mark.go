package held

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rolloutd/rolloutd/internal/durable"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// file is the name of the mark in a gateway's folder.
const file = ".alive.json"

// Mark is what a gateway notes every few seconds while it is alive. The time and all that it says of the routes are written in one step, so that
// nothing of before the mark is lost with the gateway, and nothing counts both as held before it and as away after it.
type Mark struct {
	At     time.Time        `json:"at"`
	Routes map[string]Route `json:"routes,omitempty"` // whose agent has called, by the key of their trace
}

// Route is how a route stood.
type Route struct {
	Held  Time      `json:"held"`
	First time.Time `json:"first,omitzero"`  // when its first call began; the zero time: it has had none
	Calls []Call    `json:"calls,omitempty"` // of the agent's own, under way
}

// Call is a call under way.
type Call struct {
	Turn  int       `json:"turn"`
	Began time.Time `json:"began"`
}

// Save writes the mark of a gateway's folder.
func Save(folder string, m Mark) error {
	raw, err := json.Marshal(m)
	if err == nil {
		err = durable.Replace(filepath.Join(folder, file), raw)
	}
	return fault.Wrap(fault.Internal, err, "mark of the gateway")
}

// Load reads it. The zero value: no gateway has written one.
func Load(folder string) (Mark, error) {
	var m Mark
	raw, err := os.ReadFile(filepath.Join(folder, file))
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		return Mark{}, fault.Wrap(fault.Internal, err, "mark of the gateway")
	}
	return m, nil
}

// Recall is for how long calls were held back, by now, on a route of a gateway that is gone: what the mark says, the work of the calls that were lost,
// and the time since the mark. Time before the agent's first call does not count. key is that of the route's trace; recorded says whether the call of a
// turn came to its end. first is when the first call on record began, and begun when the first of all did, be it on record or not; the zero time: the agent has made none.
func (m Mark) Recall(key string, recorded func(turn int) bool, first, now time.Time) (total Time, begun time.Time) {
	r, noted := m.Routes[key]
	if !r.First.IsZero() && (first.IsZero() || r.First.Before(first)) {
		first = r.First
	}
	for _, c := range r.Calls {
		if recorded(c.Turn) {
			continue
		}
		r.Held.Add(Span{c.Began, now})
		if first.IsZero() || c.Began.Before(first) {
			first = c.Began
		}
	}
	away := Span{m.At, now}
	if first.After(away.From) {
		away.From = first
	}
	if !m.At.IsZero() && (noted || !first.IsZero()) {
		r.Held.Add(away)
	}
	return r.Held, first
}
