// Package trainerapi serves a queue of scored groups over HTTP: to trainers and environments in the
// protocol of Atropos' trainer API, and to any other trainer as queues to pull from.
package trainerapi
