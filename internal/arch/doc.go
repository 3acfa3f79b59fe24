// Package arch tests the structure of the source: which package may import which, and the words of its text. It has no code.
package arch
