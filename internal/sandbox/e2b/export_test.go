package e2b

// LockOf is the file that a caller of Create locks.
func (d *Driver) LockOf(id string) string { return d.lockOf(id) }
