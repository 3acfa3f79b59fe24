// Package trainer has the sinks that are trainers: Atropos' trainer API, our own, and its pull queues.
package trainer
