// Package delivery delivers finished groups to their sinks: a trainer's API, files, a pull queue.
//
// It is an outbox. A delivery is recorded in the store before its first try, and is pending until the sink
// acknowledges it. Temporal repeats a failed try under the same idempotency key. Subpackages are the sinks;
// sinktest is the suite that each passes.
package delivery
