package producer

import "strconv"

// Names of the workflow of producers and of its own signal; it also has the signal "abort" and the query "state" of rollouts.
const (
	WorkflowName = "ProducerWorkflow"
	SignalChange = "change" // Change
)

// WorkflowID is the workflow id of a producer.
func WorkflowID(producerID string) string { return "producer-" + producerID }

// GroupID is the id of a producer's group.
func GroupID(producerID string, c Cursor) string {
	id := producerID + "-" + strconv.FormatInt(c.Number, 10)
	if c.Try > 0 {
		id += "t" + strconv.Itoa(c.Try)
	}
	return id
}

// EvalGroupID is the id of a group of an evaluation.
func EvalGroupID(producerID string, step, task int) string {
	return producerID + "-e" + strconv.Itoa(step) + "-" + strconv.Itoa(task)
}
