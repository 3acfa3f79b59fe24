// Package queue is the durable queue of a trainer: scored groups wait in it until they are trained on.
//
// It follows the rules of Atropos' trainer API for buffering groups and forming batches, except where those
// lose data: a group is synced before it is acknowledged to its sender, a batch is served again until the
// trainer acknowledges it, and a group that is repeated under its idempotency key is not queued again.
// Everything is in one bbolt file, so changes are atomic even if the process is killed.
package queue
