package pool

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// Job is the pool's job, as Nomad has it.
type Job struct {
	Exists bool

	// its version: Nomad refuses a change with an older one
	Index uint64

	// by its meta
	Owner   string
	Stopped bool

	// time of its last change
	SubmittedAt time.Time

	// a deployment is active
	Deploying bool

	// the groups of the job, and those that the spec has beyond them
	Groups []Group
}

// Group is a task group: room for one host.
type Group struct {
	Name  string
	Count int

	// made by an earlier template
	Outdated bool
	Allocs   []Alloc
}

// AllocPending is the state of an allocation whose tasks have not started, or wait for their restart.
const AllocPending = "pending"

// Alloc is an allocation that Nomad wants to run.
type Alloc struct {
	ID   string
	Node string

	// pending, running, unknown …
	State string

	// the last event of a task that does not run
	Why string
}

// HostName is the name of the host that an allocation runs.
func HostName(alloc string) string { return "nomad-" + alloc }

// Backlog are the rollouts that wait for a slot.
type Backlog struct {
	Count int `json:"count"`

	// how long the oldest waits
	Age time.Duration `json:"age"`
}

// Observation is the input of Next.
type Observation struct {
	Spec Spec
	Job  Job

	// hosts of the deployment, by name
	Hosts   map[string]fleet.Host
	Backlog Backlog

	// status of the check before
	Last Status
	Now  time.Time
}

// Plan is the changes to make. Marks are set before the job is changed; the zero Plan changes nothing.
type Plan struct {
	// hosts
	Resume, Drain []string

	// hosts that have ended, whose marks are not needed any more
	Forget []string

	// new counts of the groups that change; not nil: the job is registered
	Counts     map[string]int
	Deregister bool

	// with Deregister
	Purge bool

	// the pool is down
	Done bool

	Target int

	// hosts that the pool drained, with those of Drain
	Leaving   []string
	IdleSince time.Time
	Why       string
}

// Status is the state of a pool at a check.
type Status struct {
	At time.Time `json:"at"`

	// hosts
	Target  int        `json:"target"`
	Hosts   []HostLine `json:"hosts,omitempty"`
	Backlog Backlog    `json:"backlog"`

	// hosts that the pool drained
	Leaving   []string  `json:"leaving,omitempty"`
	IdleSince time.Time `json:"idle_since,omitzero"`

	// what the check changed, or why it changed nothing
	Did string `json:"did,omitempty"`

	// why the check failed: nothing was changed, and the other fields are of the check before
	Error string `json:"error,omitempty"`
	Done  bool   `json:"done,omitempty"`
}

// HostLine is a host of a pool.
type HostLine struct {
	Group string `json:"group"`
	Host  string `json:"host,omitempty"`
	Node  string `json:"node,omitempty"`
	Alloc string `json:"alloc,omitempty"`

	// empty: not known yet
	State fleet.State `json:"state,omitempty"`

	// state of the allocation
	Nomad    string `json:"nomad,omitempty"`
	Slots    int    `json:"slots"`
	Used     int    `json:"used"`
	Outdated bool   `json:"outdated,omitempty"`
	Why      string `json:"why,omitempty"`
}
