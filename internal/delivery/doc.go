// Package delivery brings finished groups to their sinks: a trainer's API, files, a pull queue.
//
// It is an outbox. A delivery is recorded in the store before its first try and is listed as pending until the sink acknowledges it. A try
// that fails is repeated by Temporal, under the same idempotency key. Subpackages are the sinks; sinktest is the suite that each passes.
package delivery
