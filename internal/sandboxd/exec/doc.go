// Package exec runs commands, each once by its call id.
package exec
