// Package engine runs rollouts on Temporal: it starts, asks, awaits and aborts workflows, and reads what they left in the store.
// It keeps nothing; any number of processes may do the same for the same rollouts.
package engine
