package rollout

import (
	"fmt"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// DefaultBackend is the sandbox backend of a rollout that names none.
const DefaultBackend = "local"

// Resources are an amount of what sandboxes use. In a bound, a zero field means unbounded.
type Resources struct {
	// cores
	CPU float64 `json:"cpu,omitempty" yaml:"cpu"`

	// tmpfs included
	MemoryMiB int `json:"memory_mib,omitempty" yaml:"memory_mib"`
	DiskMiB   int `json:"disk_mib,omitempty" yaml:"disk_mib"`
}

// Plus is the sum of both.
func (r Resources) Plus(o Resources) Resources {
	return Resources{CPU: r.CPU + o.CPU, MemoryMiB: r.MemoryMiB + o.MemoryMiB, DiskMiB: r.DiskMiB + o.DiskMiB}
}

// Times is n times r.
func (r Resources) Times(n int) Resources {
	return Resources{CPU: float64(n) * r.CPU, MemoryMiB: n * r.MemoryMiB, DiskMiB: n * r.DiskMiB}
}

// Within reports whether no field of r is above the bound.
func (r Resources) Within(bound Resources) bool {
	return (bound.CPU == 0 || r.CPU <= bound.CPU) && (bound.MemoryMiB == 0 || r.MemoryMiB <= bound.MemoryMiB) &&
		(bound.DiskMiB == 0 || r.DiskMiB <= bound.DiskMiB)
}

// Resources are what the task asks for; zero fields take the backend's defaults.
func (s Sandbox) Resources() Resources {
	return Resources{CPU: s.CPU, MemoryMiB: s.MemoryMiB, DiskMiB: s.DiskMiB}
}

// CheckMax refuses, by the name of the argument, a sandbox that asks for more than the operator allows.
func (s Sandbox) CheckMax(most Resources) error {
	switch {
	case most.CPU > 0 && s.CPU > most.CPU:
		return fault.Field("sandbox.cpu", "must be at most %g on this server, got %g", most.CPU, s.CPU)
	case most.MemoryMiB > 0 && s.MemoryMiB > most.MemoryMiB:
		return fault.Field("sandbox.memory_mib", "must be at most %d on this server, got %d",
			most.MemoryMiB, s.MemoryMiB)
	case most.DiskMiB > 0 && s.DiskMiB > most.DiskMiB:
		return fault.Field("sandbox.disk_mib", "must be at most %d on this server, got %d", most.DiskMiB, s.DiskMiB)
	}

	return nil
}

// CreateQueue is the task queue of CreateSandbox for a backend: only hosts that have the backend poll it.
func CreateQueue(backend string) string {
	if backend == "" || backend == DefaultBackend {
		return TaskQueue
	}

	return TaskQueue + "-create-" + backend
}

// Cause is a bound of a sandbox that was reached.
type Cause string

const (
	// the sandbox used up its memory and the kernel killed processes
	OutOfMemory Cause = "out_of_memory"

	// file systems of the sandbox were full at the end of the phase
	OutOfDisk Cause = "out_of_disk"

	// the kernel refused further processes or threads
	TooManyProcesses Cause = "too_many_processes"
)

// ResourceCause says that a sandbox reached one of its bounds during a phase. It comes from the kernel's
// counters, which no process of the agent or the verifier can change.
type ResourceCause struct {
	Attempt int `json:"attempt"`

	// setup, running_agent or verifying
	Phase Phase `json:"phase"`
	Cause Cause `json:"cause"`
	// Count is how many processes were killed or refused; 0 for OutOfDisk.
	Count int `json:"count,omitempty"`
	// Folders are the mount points of the full file systems, of OutOfDisk only.
	Folders []string `json:"folders,omitempty"`
}

// String describes the cause for people.
func (c ResourceCause) String() string {
	switch c.Cause {
	case OutOfMemory:
		return fmt.Sprintf("the sandbox ran out of memory (processes killed: %d)", c.Count)
	case TooManyProcesses:
		return fmt.Sprintf("the sandbox had too many processes (further ones refused: %d)", c.Count)
	default:
		return "the sandbox ran out of disk (" + strings.Join(c.Folders, ", ") + ")"
	}
}

// CausesInWords joins the causes to one line; "" without causes.
func CausesInWords(causes []ResourceCause) string {
	var words []string
	for _, c := range causes {
		words = append(words, c.String())
	}

	return strings.Join(words, "; ")
}
