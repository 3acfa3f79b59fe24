// Package toolserver serves tools over HTTP to agents elsewhere: GET /tools lists them, POST /execute runs one.
//
// A call repeated under its trajectory_id and uniq_id returns the first result and runs nothing. A failing
// tool does not affect the answers of others.
package toolserver
