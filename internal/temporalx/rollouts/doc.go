// Package rollouts runs rollouts on Temporal: it starts, queries, waits for and aborts workflows, and reads
// what they stored. It keeps no state, so any number of processes may serve the same rollouts.
package rollouts
