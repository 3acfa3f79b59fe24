package e2b

// LockOf returns the file that Create locks.
func (d *Driver) LockOf(id string) string { return d.lockOf(id) }

// ProgramPath returns the path in a machine of the sandboxd binary at path. A template with the binary at
// that path starts faster.
func ProgramPath(path string) (string, error) {
	p, err := readProgram(path)
	return p.path, err
}
