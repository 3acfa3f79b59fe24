package local

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/driver"
)

// CreateHalf does what Create does until its process is killed: right after the start of the stage, or once
// the sandbox answers.
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

// Answers returns nil if a sandbox accepts requests.
func (d *Driver) Answers(ctx context.Context, id string) error { return awaitAnswer(ctx, d.path(id)) }

// Folder returns the folder of a sandbox.
func (d *Driver) Folder(id string) string { return d.path(id) }

// Remembered returns the number of folders whose state the listing caches.
func (d *Driver) Remembered() int { return len(d.listed.byFolder) }
