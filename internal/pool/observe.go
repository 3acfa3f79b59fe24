package pool

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// Job is the pool's job, as Nomad has it.
type Job struct {
	Exists      bool
	Index       uint64 // its version: Nomad refuses a change with an older one
	Owner       string // by its meta
	Stopped     bool
	SubmittedAt time.Time // of its last change
	Deploying   bool      // a deployment is active
	Groups      []Group   // of the job, and those that the spec has beyond them
}

// Group is a task group: room for one host.
type Group struct {
	Name     string
	Count    int
	Outdated bool // made by an earlier template
	Allocs   []Alloc
}

// AllocPending is the state of an allocation whose tasks have not started, or wait for their restart.
const AllocPending = "pending"

// Alloc is an allocation that Nomad wants to run.
type Alloc struct {
	ID    string
	Node  string
	State string // pending, running, unknown …
	Why   string // the last event of a task that does not run
}

// HostName is the name of the host that an allocation runs.
func HostName(alloc string) string { return "nomad-" + alloc }

// Backlog are the rollouts that wait for a slot.
type Backlog struct {
	Count int           `json:"count"`
	Age   time.Duration `json:"age"` // of the oldest
}

// Observation is the input of Next.
type Observation struct {
	Spec    Spec
	Job     Job
	Hosts   map[string]fleet.Host // of the deployment, by name
	Backlog Backlog
	Last    Status // of the check before
	Now     time.Time
}

// Plan is the changes to make. Marks are set before the job is changed; the zero Plan changes nothing.
type Plan struct {
	Resume, Drain []string       // hosts
	Forget        []string       // hosts that have ended, whose marks are not needed any more
	Counts        map[string]int // of groups that change; not nil: the job is registered
	Deregister    bool
	Purge         bool // with Deregister
	Done          bool // the pool is down

	Target    int
	Leaving   []string // hosts that the pool drained, with those of Drain
	IdleSince time.Time
	Why       string
}

// Status is the state of a pool at a check.
type Status struct {
	At        time.Time  `json:"at"`
	Target    int        `json:"target"` // hosts
	Hosts     []HostLine `json:"hosts,omitempty"`
	Backlog   Backlog    `json:"backlog"`
	Leaving   []string   `json:"leaving,omitempty"` // hosts that the pool drained
	IdleSince time.Time  `json:"idle_since,omitzero"`
	Did       string     `json:"did,omitempty"`   // what the check changed, or why it changed nothing
	Error     string     `json:"error,omitempty"` // of a failed check: nothing was changed, and the other fields are of the check before
	Done      bool       `json:"done,omitempty"`
}

// HostLine is a host of a pool.
type HostLine struct {
	Group    string      `json:"group"`
	Host     string      `json:"host,omitempty"`
	Node     string      `json:"node,omitempty"`
	Alloc    string      `json:"alloc,omitempty"`
	State    fleet.State `json:"state,omitempty"` // empty: not known yet
	Nomad    string      `json:"nomad,omitempty"` // state of the allocation
	Slots    int         `json:"slots"`
	Used     int         `json:"used"`
	Outdated bool        `json:"outdated,omitempty"`
	Why      string      `json:"why,omitempty"`
}
