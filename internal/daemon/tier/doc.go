// Package tier starts the parts of a process in order and stops them in reverse, and makes parts of
// functions and HTTP servers.
package tier
