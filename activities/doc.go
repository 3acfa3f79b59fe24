// Package activities holds every effect of a rollout: the steps that RolloutWorkflow names. Each may run twice, on this worker or
// another process of the same host, and finds what it already did: sandboxes by id, processes by name, results by key in the
// store. So no activity keeps anything of its own, and a worker may be killed at any line.
//
// Errors carry a fault.Kind; the interceptor of internal/temporalx turns it into what Temporal retries by.
package activities
