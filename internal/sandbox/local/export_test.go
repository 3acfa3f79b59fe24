package local

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/sandbox/cgroup"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// Cgroups is exported for tests: only one of its two layouts can be had on any one machine, the other one is tried on a
// made-up tree.
type Cgroups struct{ *cgroup.Hierarchy }

// NewCgroups looks at the tree at root.
func NewCgroups(root string) Cgroups { return Cgroups{cgroup.New(root)} }

// Version is 0 where the controllers are not all there.
func (c Cgroups) Version() int { return c.Hierarchy.Version }

// Prepare makes the parents.
func (c Cgroups) Prepare() error { return c.Hierarchy.Prepare() }

// Create makes the cgroups of a sandbox, and returns the ways in for sandboxd and for its processes.
func (c Cgroups) Create(name string, spec driver.Spec) (folder string, sandboxd, work []string, err error) {
	e, err := c.Hierarchy.Create(name, spec)
	return e.Folder, e.Sandboxd, e.Work, err
}

// Usage is what it used.
func (c Cgroups) Usage(name string) driver.Usage { return c.Counters(name).Read() }

// Kill kills its members.
func (c Cgroups) Kill(name string) error { return c.Hierarchy.Kill(name) }

// CreateHalf does what Create does until its process is killed: right after the stage was started, or once the sandbox answers.
func (d *Driver) CreateHalf(ctx context.Context, id string, spec driver.Spec, answers bool) error {
	f, err := lockFolder(ctx, d.path(id), true)
	if err != nil {
		return err
	}
	defer f.unlock()
	l, err := d.launch(ctx, f.path, spec)
	if err != nil {
		return err
	}
	defer l.close()
	child, err := l.start()
	if err != nil {
		return err
	}
	go child.reap()
	l.closeFiles()
	if !answers {
		return nil
	}
	if l.namespace != nil {
		if err := l.namespace.start(ctx, f.path); err != nil {
			return err
		}
	}
	return awaitAnswer(ctx, f.path)
}

// Answers says whether a sandbox takes requests.
func (d *Driver) Answers(ctx context.Context, id string) error { return awaitAnswer(ctx, d.path(id)) }

// Folder is the folder of a sandbox.
func (d *Driver) Folder(id string) string { return d.path(id) }
