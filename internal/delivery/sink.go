package delivery

import "context"

// Sink is where finished groups go. Its methods are safe for concurrent use, also by several processes.
type Sink interface {
	// Status says what the sink can take. An error means that it could not be asked.
	Status(ctx context.Context) (Status, error)
	// Deliver hands over a group and returns nil when the sink has it durably. It is idempotent under g.Key: a call whose answer was lost
	// is repeated. A fault.Conflict says that the group is no data for this sink, a fault.Invalid or fault.UpstreamRefused that the sink
	// refuses it for good; after any other error the call is repeated.
	Deliver(ctx context.Context, g Group) error
}

// Status is what a sink can take. It stands in stored histories.
type Status struct {
	// Ready is false while the trainer has not started; Waiting says why.
	Ready bool `json:"ready"`
	// Room is how many more groups the sink takes now; Unbounded: any number.
	Room    int    `json:"room"`
	Waiting string `json:"waiting,omitempty"` // why Room is 0

	// What the trainer says of itself; 0 where the sink has no trainer or it does not say.
	Step       int `json:"step,omitempty"`        // the one that it trains on
	TotalSteps int `json:"total_steps,omitempty"` // at which it ends
	BatchSize  int `json:"batch_size,omitempty"`  // in sequences
	Queued     int `json:"queued,omitempty"`      // sequences that it has and has not trained on
	Training   int `json:"training,omitempty"`    // of Queued: in batches that Step counts, which are trained on now
}

// Unbounded is the Room of a sink that takes any number of groups.
const Unbounded = -1
