// Package console shows rollouts to a person at a terminal: it submits a task, tells each phase as it happens, and ends with
// a small table. It knows a server only through its tools.
package console
