// Package supervisor watches one agent from its start to its end: it launches the agent, follows its status
// and that of its gateway route, saves the transcript as it grows, and decides how the work ended.
//
// It waits for changes and does not poll. Decide alone determines the outcome of an attempt: it is a pure
// function of a State, and its table test lists every case.
package supervisor
