// Package traceindex makes and reads the index of a trace: its conversation, in which each message stands once, and the
// tokens of its training sequences, both in blocks that are read alone. A line of a trace repeats the whole
// conversation before it, so that pages of a long trace would read hundreds of megabytes; its index has a few.
//
// An index is one blob: the blocks in the order in which they were made, then the table of them, then the table's
// place. Each block and the table have a checksum. The index names the trace that it is of.
package traceindex
