// Package arch holds the test of the rules that say which package may import which. It has no code of its own.
package arch
