package daemon

// Due says at which checks a process that uses inUse MiB returns memory, given the MiB allocated until each check.
func Due(inUse uint64, allocated ...uint64) []bool {
	var (
		m   monitor
		due []bool
	)
	for _, a := range allocated {
		due = append(due, m.due(heap{a << 20, inUse << 20}))
	}

	return due
}
