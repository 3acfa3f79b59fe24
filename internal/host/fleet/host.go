// Package fleet describes the hosts of a deployment, as every server, host and command line lists them.
package fleet

import (
	"regexp"
	"time"
)

// State reports whether a host takes new rollouts.
type State string

// The states of hosts.
const (
	Running State = "running"

	// takes no new sandbox; some still run
	Draining State = "draining"

	// takes no new sandbox; none runs
	Drained State = "drained"

	// has not renewed its record
	Lost State = "lost"

	// has another encryption key than the deployment and takes no work
	Refused State = "refused"
)

// Host is the state of a host of the deployment at SeenAt.
type Host struct {
	Name    string `json:"name"`
	State   State  `json:"state"`
	Version string `json:"version,omitempty"`
	// Backends have the room of the host by the name of the backend.
	Backends map[string]Room `json:"backends,omitempty"`

	// load average of its machine over the last minute
	Load float64 `json:"load"`
	CPUs int     `json:"cpus"`
	// StartedAt is the start of its worker, SeenAt the time of its latest status.
	StartedAt time.Time `json:"started_at"`
	SeenAt    time.Time `json:"seen_at"`

	// why it did not answer
	Error string `json:"error,omitempty"`
}

// Room is the room of a host for the sandboxes of a backend.
type Room struct {
	// sandboxes at once
	Slots int `json:"slots"`

	// by rollouts
	Used int `json:"used"`

	// sandboxes that wait for a rollout
	Warm int `json:"warm"`
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

// IsName reports whether a host can have the name.
func IsName(s string) bool { return name.MatchString(s) }
