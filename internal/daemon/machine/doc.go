// Package machine reads properties of the machine: its host id, its memory, its load and the path of sandboxd.
package machine
