package pool

// Names on the wire between the commands, the workflow and its activities.
const (
	WorkflowName  = "PoolWorkflow"
	ActivityScale = "ScalePool"
	ActivityEnd   = "EndPool"
	SignalSpec    = "spec"
	QueryStatus   = "status"
)

// Queue is the task queue of a pool. The servers whose configuration has the pool poll it.
func Queue(name string) string { return "rolloutd-pool-" + name }

// ScheduleID is the id of the schedule that keeps the workflow of a pool running.
func ScheduleID(name string) string { return "rolloutd-pool-" + name }

// Input is the input of a check, and of the workflow, which makes one check after the other.
type Input struct {
	Spec Spec `json:"spec"`

	// status of the check before
	Last Status `json:"last"`
}
