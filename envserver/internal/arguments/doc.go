// Package arguments checks the arguments of tool calls: it makes a tool's schema from a Go type, decodes a
// call's arguments by the schema, and names every invalid argument in the error.
package arguments
