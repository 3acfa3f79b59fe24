package delivery

import "context"

// Sink is a destination of finished groups. Its methods are safe for concurrent use, also by several processes.
type Sink interface {
	// Status returns how much the sink accepts now. An error means that it could not be asked.
	Status(ctx context.Context) (Status, error)
	// Deliver delivers a group and returns nil when the sink has stored it durably. It is idempotent by
	// g.Key: a call whose answer was lost is repeated. A fault.Conflict means that the sink cannot use the
	// group, a fault.Invalid or fault.UpstreamRefused that it refuses the group for good. After any other
	// error the call is repeated.
	Deliver(ctx context.Context, g Group) error
}

// Disconnector is a sink that leaves its consumer when a producer ends.
type Disconnector interface {
	Disconnect(ctx context.Context) error
}

// Flusher is a sink that buffers groups. Flush hands over what it buffers, when a producer ends.
type Flusher interface {
	Flush(ctx context.Context) error
}

// DueCloser is a sink that buffers groups for a limited time. CloseDue is called each minute and hands over
// what is due.
type DueCloser interface {
	CloseDue(ctx context.Context) error
}

// Status describes how much a sink accepts. It is part of stored histories.
type Status struct {
	// Ready is false until the trainer has started; Waiting is the reason.
	Ready bool `json:"ready"`
	// Room is how many more groups the sink accepts now; Unbounded: any number.
	Room int `json:"room"`

	// why Room is 0
	Waiting string `json:"waiting,omitempty"`

	// Data of the trainer; 0: no trainer, or not reported.
	// the current training step
	Step int `json:"step,omitempty"`

	// the last step
	TotalSteps int `json:"total_steps,omitempty"`

	// size of a batch, in sequences
	BatchSize int `json:"batch_size,omitempty"`

	// sequences that it has and has not trained on
	Queued int `json:"queued,omitempty"`

	// those of Queued in batches that Step counts, which are trained on now
	Training int `json:"training,omitempty"`
}

// Unbounded is the Room of a sink that accepts any number of groups.
const Unbounded = -1
