// Package activities has the activities of a rollout: all of its effects. Each may run twice, on this
// worker or in another process of the same host, and finds its earlier effects: sandboxes by id, processes
// by name, results by key in the store. No activity keeps state of its own, so a worker may be killed at
// any point.
//
// Errors carry a fault.Kind; the interceptor of internal/temporalx maps it to a Temporal error type and its
// retryability.
package activities
