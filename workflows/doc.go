// Package workflows holds RolloutWorkflow, which is a rollout: it names the steps, bounds them, decides what their ends mean
// and whether another attempt follows. It does nothing itself; every effect is an activity.
//
// The steps of an attempt run on the queue of the host that made its sandbox. Work never hangs on the workflow's own context:
// a cancellation is taken as a wish to abort, so that what there is can be collected and the sandbox closed.
package workflows
