package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// DeliverySpec names a finished group and the sink that it goes to. It is the input of DeliveryWorkflow and
// of the activity DeliverGroup, and therefore part of stored histories.
type DeliverySpec struct {
	GroupID string `json:"group_id"`
	Sink    string `json:"sink"`
	// MaxTokens refuses groups with a training sequence of this many tokens or more; 0: none is refused.
	MaxTokens int `json:"max_tokens,omitempty"`
	// MaxVersionLag refuses groups as producer.GroupFilter.MaxVersionLag does; nil: none is refused.
	MaxVersionLag *int `json:"max_version_lag,omitempty"`
	// MarkStale delivers groups beyond MaxVersionLag with their lag, for sinks that have a trainer's step.
	MarkStale bool `json:"mark_stale,omitempty"`
	// OneVersion refuses groups as producer.GroupFilter.OneVersion does.
	OneVersion bool `json:"one_version,omitempty"`
}

// Validate reports what is wrong with the names. The error's kind is Invalid.
func (d DeliverySpec) Validate() error {
	if CheckID(d.GroupID) != nil || len(d.GroupID) > maxGroupID {
		return fault.Field("group_id", "must be the id of a group, got %q", d.GroupID)
	}

	return CheckSink(d.Sink)
}

// CheckSink reports what is wrong with the name of a sink. The error's kind is Invalid.
func CheckSink(name string) error {
	if CheckID(name) != nil || len(name) > maxSinkName {
		return fault.Field("sink",
			"must be 1 to %d letters, digits, '_' or '-', beginning with a letter or digit, got %q",
			maxSinkName, name)
	}

	return nil
}

const maxSinkName = 40

// DeliveryState is the state of a delivery. It is a closed set.
type DeliveryState string

const (
	// DeliveryPending: the group is in the outbox and the sink has not acknowledged it.
	DeliveryPending DeliveryState = "pending"
	// DeliveryDelivered: the sink acknowledged the group.
	DeliveryDelivered DeliveryState = "delivered"
	// DeliveryRefused: the sink refuses the group for good; Delivery.Reason says why. It stays in the list
	// until it is delivered again.
	DeliveryRefused DeliveryState = "refused"
	// DeliverySkipped: the group is no training data for this sink; Delivery.Reason says why.
	DeliverySkipped DeliveryState = "skipped"
)

// DeliveryStates are all states.
func DeliveryStates() []DeliveryState {
	return []DeliveryState{DeliveryPending, DeliveryDelivered, DeliveryRefused, DeliverySkipped}
}

// Known reports whether s is one of the states.
func (s DeliveryState) Known() bool { return slices.Contains(DeliveryStates(), s) }

// Delivery is the delivery of one group to one sink. It is part of stored histories and of objects in the store.
type Delivery struct {
	Sink    string `json:"sink"`
	GroupID string `json:"group_id"`

	// idempotency key: the same for every try, another one for every group
	Key    string        `json:"key"`
	TaskID string        `json:"task_id"`
	Owner  string        `json:"owner,omitempty"`
	State  DeliveryState `json:"state"`
	// Reason is why the group is skipped or refused, or the error of the last try while it is pending.
	Reason string `json:"reason,omitempty"`

	// failed ones
	Tries    int `json:"tries"`
	Rollouts int `json:"rollouts"`

	// skipped by DeliverySpec.MaxTokens
	TooLong bool `json:"too_long,omitempty"`

	// beyond DeliverySpec.MaxVersionLag: skipped, or delivered with a mark
	Stale bool `json:"stale,omitempty"`

	// skipped by DeliverySpec.OneVersion
	Mixed    bool       `json:"mixed,omitempty"`
	QueuedAt time.Time  `json:"queued_at"`
	EndedAt  *time.Time `json:"ended_at,omitempty"`
}

// Done reports whether the delivery has ended.
func (d Delivery) Done() bool { return d.State != "" && d.State != DeliveryPending }

// DeliveryFilter selects deliveries; zero fields select all.
type DeliveryFilter struct {
	Sink  string
	State DeliveryState
	Owner string

	// producer of the groups
	ProducerID string

	// size of a page, 1 to 1000
	Limit  int
	Cursor string
}

// Validate reports what is wrong with the filter. The error's kind is Invalid.
func (f DeliveryFilter) Validate() error {
	switch {
	case f.Sink != "" && CheckSink(f.Sink) != nil:
		return CheckSink(f.Sink)
	case f.State != "" && !f.State.Known():
		return fault.Field("state", "must be pending, delivered, refused or skipped, got %q", f.State)
	case f.ProducerID != "" && CheckID(f.ProducerID) != nil:
		return fault.Field("producer_id", "must be the id of a producer, got %q", f.ProducerID)
	case f.Cursor != "" && !strings.HasPrefix(f.Cursor, "deliveries/"):
		return fault.Field("cursor", "not a cursor returned by this list")
	}

	return nil
}

// DeliveryPage is a part of a list of deliveries, oldest group first. It may have fewer deliveries than the limit. Next is
// empty on the last one.
type DeliveryPage struct {
	Deliveries []Delivery `json:"deliveries"`
	Next       string     `json:"next,omitempty"`
}

// DeliveryWorkflowName is the name of the workflow that delivers one group to one sink.
const DeliveryWorkflowName = "DeliveryWorkflow"

// DeliveryWorkflowID is the workflow id of a delivery. Both names may have a '-', and neither has a '.'.
func DeliveryWorkflowID(d DeliverySpec) string { return "delivery-" + d.Sink + "." + d.GroupID }

// DeliveryQueue is the task queue of the activities SinkStatus and DeliverGroup. Every worker polls it.
const DeliveryQueue = TaskQueue + "-delivery"
