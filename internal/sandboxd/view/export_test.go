package view

// NewMount returns a mount point with its options.
func NewMount(path string, flags uintptr) Mount { return Mount{path, flags} }

// Parse exports parse.
func Parse(line string) (Mount, bool) { return parse(line) }

// IsOwn exports isOwn.
func IsOwn(path string) bool { return isForeignMount(path) }
