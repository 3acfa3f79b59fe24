// Package trajectory makes training data of a trace: which turns to train on, where each turn stands in the session (lineage, branch),
// where a prompt does not continue the turn before it, and the exports (JSON lines, compact turns, arrays).
package trajectory
