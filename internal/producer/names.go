package producer

import (
	"regexp"
	"slices"
	"strconv"
)

// Names of the workflow of producers and of its own signal; it also has the signal "abort" and the query
// "state" of rollouts.
const (
	WorkflowName = "ProducerWorkflow"

	// Change
	SignalChange = "change"
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

var (
	groupID     = regexp.MustCompile(`^(.+)-[0-9]+(t[0-9]+)?$`)
	evalGroupID = regexp.MustCompile(`^(.+)-e[0-9]+-[0-9]+$`)
)

// OfGroup are the producers whose groups could have an id; empty: it is neither a GroupID nor an EvalGroupID.
func OfGroup(id string) (producerIDs []string) {
	for _, pattern := range []*regexp.Regexp{groupID, evalGroupID} {
		if found := pattern.FindStringSubmatch(id); found != nil {
			producerIDs = append(producerIDs, found[1])
		}
	}

	return producerIDs
}

// Owns reports whether a group's id is that of a group of the producer. It is not enough that it begins with the
// producer's: "math-2-7" is a group of the producer "math-2", and none of "math".
func Owns(producerID, groupID string) bool { return slices.Contains(OfGroup(groupID), producerID) }
