package e2b

// LockOf returns the file that Create locks.
func (d *Driver) LockOf(id string) string { return d.lockOf(id) }
