// Package render writes replies for agents and for the trace. It joins the events of a stream into one
// object, turns an object into a stream, and removes what the reader did not ask for.
package render
