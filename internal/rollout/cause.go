package rollout

import (
	"fmt"
	"strings"
)

// Cause is a bound of a sandbox that was reached.
type Cause string

const (
	OutOfMemory      Cause = "out_of_memory"      // the kernel killed processes, the memory of the sandbox being used up
	OutOfDisk        Cause = "out_of_disk"        // file systems of the sandbox were full at the end of the phase
	TooManyProcesses Cause = "too_many_processes" // the kernel refused further processes or threads
)

// ResourceCause says that a sandbox reached one of its bounds during a phase. It comes from counters on the host, which nothing in the
// sandbox can change.
type ResourceCause struct {
	Attempt int   `json:"attempt"`
	Phase   Phase `json:"phase"` // setup, running_agent or verifying
	Cause   Cause `json:"cause"`
	// Count is how many processes were killed or refused; 0 for OutOfDisk.
	Count int `json:"count,omitempty"`
	// Folders are the mount points of the full file systems, of OutOfDisk only.
	Folders []string `json:"folders,omitempty"`
}

// String says it in words.
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
