package memory

// Due says at which of the looks memory is returned, by the MiB allocated so far, in a process that uses some MiB.
func Due(inUse uint64, allocated ...uint64) []bool {
	var l looks
	var due []bool
	for _, a := range allocated {
		due = append(due, l.due(heap{a << 20, inUse << 20}))
	}
	return due
}
