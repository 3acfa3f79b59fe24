// Package queue is the durable queue of a trainer: scored groups wait in it until they are trained on.
//
// It follows the rules of Atropos' trainer API for buffering groups and forming batches, and differs where those lose data: a group that was
// acknowledged to its sender is synced, a batch is served again until the trainer acknowledges it, and a group that comes again under its
// idempotency key is not queued again. All is in one bbolt file: a change is whole or not there, whenever the process is killed.
package queue
