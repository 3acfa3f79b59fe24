// Package reply has the Go types of the routes' answers, and encodes them.
package reply
