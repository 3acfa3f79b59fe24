// Package reply is what the routes answer with: the Go types of the wire, and how they are encoded.
package reply
