// Package limits limits requests to model endpoints: concurrency, rate, and pauses. It keeps endpoints by
// name and reports the status of each.
package limits
