// Package machine is what a daemon has to know of its machine: its id, its memory, and where sandboxd is.
package machine
