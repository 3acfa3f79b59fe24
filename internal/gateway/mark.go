package gateway

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

// HeldMark is the state that a gateway writes every few seconds while it is alive. The time and the routes'
// state are written in one step: nothing before the mark is lost with the gateway, and no time counts both
// as held before the mark and as away after it.
type HeldMark struct {
	At time.Time `json:"at"`

	// routes whose agent has called, by the key of their trace
	Routes map[string]HeldRoute `json:"routes,omitempty"`
}

// HeldRoute is the state of a route.
type HeldRoute struct {
	Held HeldTime `json:"held"`

	// start of the first call; the zero time: no call yet
	First time.Time `json:"first,omitzero"`

	// the agent's own calls in flight
	Calls []HeldCall `json:"calls,omitempty"`
}

// HeldCall is a call in flight.
type HeldCall struct {
	Turn  int       `json:"turn"`
	Began time.Time `json:"began"`
}

// SaveHeldMark writes the mark in a gateway's folder.
func SaveHeldMark(folder string, m HeldMark) error {
	raw, err := json.Marshal(m)
	if err == nil {
		err = durable.Replace(filepath.Join(folder, file), raw)
	}

	return fault.Wrap(fault.Internal, err, "mark of the gateway")
}

// LoadHeldMark reads the mark in a gateway's folder. The zero value: there is none.
func LoadHeldMark(folder string) (HeldMark, error) {
	var m HeldMark

	raw, err := durable.Read(filepath.Join(folder, file))
	if errors.Is(err, os.ErrNotExist) {
		return m, nil
	}

	if err == nil {
		err = json.Unmarshal(raw, &m)
	}

	if err != nil {
		return HeldMark{}, fault.Wrap(fault.Internal, err, "mark of the gateway")
	}

	return m, nil
}

// Recall returns how long the calls of a route of an earlier gateway process were held back until now: the
// time in the mark, the time of the lost calls, and the time since the mark. Time before the agent's first
// call does not count. key is that of the route's trace; recorded reports whether the call of a turn was
// completed. first is the start of the first recorded call, begun that of the first call, recorded or not;
// the zero time: the agent has made none.
func (m HeldMark) Recall(
	key string,
	recorded func(turn int) bool,
	first, now time.Time,
) (total HeldTime, begun time.Time) {
	r, noted := m.Routes[key]
	if !r.First.IsZero() && (first.IsZero() || r.First.Before(first)) {
		first = r.First
	}

	for _, c := range r.Calls {
		if recorded(c.Turn) {
			continue
		}

		r.Held.Add(HeldSpan{c.Began, now})

		if first.IsZero() || c.Began.Before(first) {
			first = c.Began
		}
	}

	away := HeldSpan{m.At, now}
	if first.After(away.From) {
		away.From = first
	}

	if !m.At.IsZero() && (noted || !first.IsZero()) {
		r.Held.Add(away)
	}

	return r.Held, first
}
