// Package audit compares the log probabilities that a turn was recorded with and those that the endpoint gives the same
// tokens again. They differ if the turn met a cache of earlier weights, or other weights than it names.
package audit
