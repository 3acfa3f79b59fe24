package producer

import "github.com/rolloutd/rolloutd/internal/fault"

const (
	maxConcurrency = 4096
	maxOffpolicy   = 1000
	maxTrainSteps  = 1 << 31
	// MaxGroups bounds the groups of a producer that run at once: Temporal bounds the children of a workflow to 2,000.
	MaxGroups = 1000
)

// Bounds may be changed while a producer runs.
type Bounds struct {
	// rollouts at once; a group starts while there is room for one of its rollouts
	Concurrency int `json:"concurrency"`
	// MaxBatchesOffpolicy bounds the batches that are produced ahead of the trainer: running, undelivered
	// and queued; 0: no bound.
	MaxBatchesOffpolicy int `json:"max_batches_offpolicy"`

	// steps of the trainer; 0: what the sink says, or no bound
	TotalSteps int `json:"total_steps,omitempty"`
}

// Validate reports what is wrong with the bounds. The error's kind is Invalid.
func (b Bounds) Validate() error {
	switch {
	case b.Concurrency < 1 || b.Concurrency > maxConcurrency:
		return fault.Field("concurrency", "must be 1 to %d rollouts at once, got %d", maxConcurrency, b.Concurrency)
	case b.MaxBatchesOffpolicy < 0 || b.MaxBatchesOffpolicy > maxOffpolicy:
		return fault.Field("max_batches_offpolicy", "must be 0 (no bound) to %d, got %d",
			maxOffpolicy, b.MaxBatchesOffpolicy)
	case b.TotalSteps < 0 || b.TotalSteps > maxTrainSteps:
		return fault.Field("total_steps", "must be 0 (no bound) to %d, got %d", maxTrainSteps, b.TotalSteps)
	}

	return nil
}

// Change is the signal that changes a running producer; fields that are absent stay as they are.
type Change struct {
	Paused *bool `json:"paused,omitempty"`

	// end after all running groups are delivered
	Stop                bool `json:"stop,omitempty"`
	Concurrency         *int `json:"concurrency,omitempty"`
	MaxBatchesOffpolicy *int `json:"max_batches_offpolicy,omitempty"`
	TotalSteps          *int `json:"total_steps,omitempty"`
}

// Apply returns the bounds as changed.
func (c Change) Apply(b Bounds) Bounds {
	set := func(to, v *int) {
		if v != nil {
			*to = *v
		}
	}
	set(&b.Concurrency, c.Concurrency)
	set(&b.MaxBatchesOffpolicy, c.MaxBatchesOffpolicy)
	set(&b.TotalSteps, c.TotalSteps)

	return b
}
