package rollout

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// What a filter's status may be; none is both.
const (
	StatusRunning = "running"
	StatusDone    = "done"
)

// Filter selects rollouts; empty fields select all.
type Filter struct {
	Status  string // StatusRunning or StatusDone
	TaskID  string
	GroupID string
	Owner   string
	Outcome Outcome
	Limit   int    // of one page
	Cursor  string // Page.Next of the page before
	// Detail has each rollout asked for its attempt, its turns and why it waits, which a list has not.
	Detail bool
}

// MaxDetail bounds a page with Filter.Detail.
const MaxDetail = 100

// Validate refuses what no rollout can have: a misspelt outcome would list nothing, as if there were none of it.
func (f Filter) Validate() error {
	switch {
	case f.Status != "" && f.Status != StatusRunning && f.Status != StatusDone:
		return fault.Field("status", "want %s or %s, got %q", StatusRunning, StatusDone, f.Status)
	case f.Outcome != "" && !slices.Contains(Outcomes(), f.Outcome):
		return fault.Field("outcome", "want one of %s, got %q", OutcomeNames(), f.Outcome)
	case f.Detail && f.Limit > MaxDetail:
		return fault.Field("limit", "want at most %d with detail, got %d", MaxDetail, f.Limit)
	case !utf8.ValidString(f.TaskID):
		return fault.Field("task_id", "want UTF-8, got %q", f.TaskID)
	case !utf8.ValidString(f.GroupID):
		return fault.Field("group_id", "want UTF-8, got %q", f.GroupID)
	}
	return nil
}

// OutcomeNames lists the outcomes for people.
func OutcomeNames() string {
	names := make([]string, len(Outcomes()))
	for i, o := range Outcomes() {
		names[i] = string(o)
	}
	return strings.Join(names, ", ")
}

// Page is a part of a list: those that run first, then by their end, latest first. Next is empty on the last one.
type Page struct {
	Rollouts []State `json:"rollouts"`
	Next     string  `json:"next,omitempty"`
}

// HostState says whether a host takes new rollouts.
type HostState string

// The states of hosts.
const (
	HostRunning  HostState = "running"
	HostDraining HostState = "draining" // takes no new sandbox; some still run
	HostDrained  HostState = "drained"  // takes no new sandbox; none runs
	HostLost     HostState = "lost"     // gives no sign of life
)

// Host is a host of the deployment, as it was at SeenAt.
type Host struct {
	Name    string    `json:"name"`
	State   HostState `json:"state"`
	Version string    `json:"version,omitempty"`
	// Backends have the room of the host by the name of the backend.
	Backends map[string]HostRoom `json:"backends,omitempty"`
	Load     float64             `json:"load"` // of its machine: processes that run or want to, over the last minute
	CPUs     int                 `json:"cpus"`
	// StartedAt is the start of its worker, SeenAt its last sign of life.
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	Error     string    `json:"error,omitempty"` // why it did not answer
}

// HostRoom is the room of a host for the sandboxes of a backend.
type HostRoom struct {
	Slots int `json:"slots"` // sandboxes at once
	Used  int `json:"used"`  // by rollouts
	Warm  int `json:"warm"`  // sandboxes in which an agent waits for a rollout
}

// Total sums the rooms of all backends.
func (h Host) Total() (sum HostRoom) {
	for _, r := range h.Backends {
		sum.Slots, sum.Used, sum.Warm = sum.Slots+r.Slots, sum.Used+r.Used, sum.Warm+r.Warm
	}
	return sum
}

// HostPage lists the hosts of the deployment by their names.
type HostPage struct {
	Hosts []Host `json:"hosts"`
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

// IsHostName says whether a host can have the name.
func IsHostName(name string) bool { return hostName.MatchString(name) }
