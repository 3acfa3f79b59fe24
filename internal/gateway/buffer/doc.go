// Package buffer reuses the memory of long slices.
package buffer
