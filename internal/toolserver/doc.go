// Package toolserver serves tools over HTTP to agents that run elsewhere: GET /tools lists them, POST /execute runs one.
//
// A call that is repeated under its trajectory_id and uniq_id returns the result of the first and runs nothing. Tools that fail do not
// change the answers of others.
package toolserver
