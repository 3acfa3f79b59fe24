// Package workflows has RolloutWorkflow, which is one rollout: it orders and bounds the steps, decides the
// outcome of an attempt, and whether another attempt follows. Every effect is an activity.
//
// The steps of an attempt run on the queue of the host that created its sandbox. Work does not use the
// workflow's own context: a cancellation is an abort, after which artifacts are still collected and the
// sandbox is closed.
package workflows
