// Package arch tests the structure of the source: which package may import which, and that pages name what exists. It
// has no code.
package arch
