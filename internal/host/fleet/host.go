// Package fleet describes the hosts of a deployment, as every server, host and command line lists them.
package fleet

import (
	"regexp"
	"time"
)

// State says whether a host takes new rollouts.
type State string

// The states of hosts.
const (
	Running  State = "running"
	Draining State = "draining" // takes no new sandbox; some still run
	Drained  State = "drained"  // takes no new sandbox; none runs
	Lost     State = "lost"     // has not renewed its record
	Refused  State = "refused"  // has another encryption key than the deployment and takes no work
)

// Host is the state of a host of the deployment at SeenAt.
type Host struct {
	Name    string `json:"name"`
	State   State  `json:"state"`
	Version string `json:"version,omitempty"`
	// Backends have the room of the host by the name of the backend.
	Backends map[string]Room `json:"backends,omitempty"`
	Load     float64         `json:"load"` // load average of its machine over the last minute
	CPUs     int             `json:"cpus"`
	// StartedAt is the start of its worker, SeenAt the time of its latest status.
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`
	Error     string    `json:"error,omitempty"` // why it did not answer
}

// Room is the room of a host for the sandboxes of a backend.
type Room struct {
	Slots int `json:"slots"` // sandboxes at once
	Used  int `json:"used"`  // by rollouts
	Warm  int `json:"warm"`  // sandboxes that wait for a rollout
}

// Total sums the rooms of all backends.
func (h Host) Total() (sum Room) {
	for _, r := range h.Backends {
		sum.Slots, sum.Used, sum.Warm = sum.Slots+r.Slots, sum.Used+r.Used, sum.Warm+r.Warm
	}
	return sum
}

// Page lists the hosts of the deployment by their names.
type Page struct {
	Hosts []Host `json:"hosts"`
}

// name matches valid names of hosts.
var name = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

// IsName says whether a host can have the name.
func IsName(s string) bool { return name.MatchString(s) }
