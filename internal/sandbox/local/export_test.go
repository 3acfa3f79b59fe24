package local

import "github.com/rolloutd/rolloutd/internal/sandbox/driver"

// Cgroups is exported for tests: only one of its two layouts can be had on any one machine, the other one is tried on a
// made-up tree.
type Cgroups struct{ *hierarchy }

// NewCgroups looks at the tree at root.
func NewCgroups(root string) Cgroups { return Cgroups{newHierarchy(root)} }

// Version is 0 where the controllers are not all there.
func (c Cgroups) Version() int { return c.version }

// Prepare makes the parents.
func (c Cgroups) Prepare() error { return c.prepare() }

// Create makes the cgroups of a sandbox, and returns the ways in for sandboxd and for its processes.
func (c Cgroups) Create(name string, spec driver.Spec) (folder string, sandboxd, work []string, err error) {
	e, err := c.create(name, spec)
	return e.folder, e.sandboxd, e.work, err
}

// Usage is what it used.
func (c Cgroups) Usage(name string) driver.Usage { return c.usage(name) }

// Kill kills its members.
func (c Cgroups) Kill(name string) error { return c.kill(name) }
