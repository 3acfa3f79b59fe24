// Package exec runs commands once by call id, and keeps their results: a call that is made again returns the result of the command
// that ran, and runs nothing. Calls do not wait for each other.
package exec
