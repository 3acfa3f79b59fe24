// Package web is the web interface: the page, and for each session a view of its latest observation and the
// log of its actions.
package web

import (
	"encoding/json"
	"sync"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
)

// Bounds of a log: the reference's number of entries, and a size, because an observation may contain a whole rollout.
const (
	maxEntries = 1000
	maxBytes   = 8 << 20
)

// View is the view of one session. It is safe for concurrent use.
type View struct {
	mu     sync.Mutex
	latest json.RawMessage
	log    []json.RawMessage

	// size of the log, in bytes
	size  int
	reset bool

	// closed at the next change
	changed chan struct{}

	// closed when the session has ended
	cleared chan struct{}
}

func newView() *View {
	return &View{
		reset:   true,
		latest:  json.RawMessage("null"),
		log:     []json.RawMessage{},
		changed: make(chan struct{}),
		cleared: make(chan struct{}),
	}
}

// Entry is one action of the log.
type Entry struct {
	// ISO 8601 without a zone, as in the reference; UTC
	Timestamp   string          `json:"timestamp"`
	Action      any             `json:"action"`
	Observation json.RawMessage `json:"observation"`
	Reward      *float64        `json:"reward"`
	Done        bool            `json:"done"`
	StepCount   int             `json:"step_count"`
}

// Reset clears the log.
func (d *View) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.latest, d.log, d.size, d.reset = json.RawMessage("{}"), []json.RawMessage{}, 0, true
	d.wake()
}

// Add adds an entry to the log and removes the oldest entries beyond the bounds.
func (d *View) Add(e Entry) error {
	raw, err := jsonvalue.Encode(e)
	if err != nil {
		return err
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	d.latest, d.reset = e.Observation, false
	d.log = append(d.log, raw)

	d.size += len(raw)
	for len(d.log) > 1 && (len(d.log) > maxEntries || d.size > maxBytes) {
		d.size -= len(d.log[0])
		d.log = d.log[1:]
	}

	d.wake()

	return nil
}

// wake wakes the watchers; d.mu is held.
func (d *View) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Update is the message with a view.
type Update struct {
	Type  string  `json:"type"`
	State Episode `json:"episode_state"`
}

// Episode is a session and its view.
type Episode struct {
	EpisodeID   string            `json:"episode_id"`
	StepCount   int               `json:"step_count"`
	Observation json.RawMessage   `json:"current_observation"`
	Log         []json.RawMessage `json:"action_logs"`
	IsReset     bool              `json:"is_reset"`
}

// Show returns the view with the session's state, and a channel that closes at the next change.
func (d *View) Show(s session.State) (Update, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()

	return Update{"state_update", Episode{s.EpisodeID, s.StepCount, d.latest, d.log, d.reset}}, d.changed
}

// Cleared is closed when the view's session has ended.
func (d *View) Cleared() <-chan struct{} { return d.cleared }
