// Package trajectory makes training data from a trace: which turns to train on, the place of each turn in
// the session (lineage, branch), where a prompt does not continue the previous turn, and the exports (JSON
// lines, compact turns, arrays).
package trajectory
