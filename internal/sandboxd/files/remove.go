package files

import (
	"crypto/rand"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxDepth bounds the number of directories held open.
const maxDepth = 128

// removeTree removes name in d with everything below it, whatever the modes and the depth: a directory that
// is too deep is moved up beside name and removed from there. A mount point is emptied.
func removeTree(d *dir, name string) error {
	r := remover{top: d, todo: []string{name}}
	for len(r.todo) > 0 {
		next := r.todo[len(r.todo)-1]

		r.todo = r.todo[:len(r.todo)-1]
		if err := r.remove(d, next, 0); err != nil {
			return err
		}
	}

	return nil
}

type remover struct {
	top  *dir
	todo []string
}

func (r *remover) remove(d *dir, name string, depth int) error {
	err := unix.Unlinkat(d.fd, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}

	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}

	sub, err := d.sub(name)
	if err != nil {
		return err
	}
	defer sub.close()

	if err := sub.chmod(0o700); err != nil {
		return err
	}

	if depth == maxDepth {
		return r.hoist(d, name)
	}
	// A living process may add files meanwhile: a few rounds win against a slow one, and a fast one is an error.
	for range 4 {
		if err = r.empty(sub, depth+1); err != nil {
			return err
		}

		err = unix.Unlinkat(d.fd, name, unix.AT_REMOVEDIR)
		if errors.Is(err, unix.EBUSY) {
			// a mount point: it is empty now, and stays
			return nil
		}

		if !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
	}

	return err
}

// empty removes the contents of d in batches.
func (r *remover) empty(d *dir, depth int) error {
	const atOnce = 4096
	for {
		names, err := d.names(atOnce)

		more := fault.Is(err, fault.OutOfDisk)
		if err != nil && !more {
			return err
		}

		err = nil
		for _, name := range names {
			err = errors.Join(err, r.remove(d, name, depth))
		}

		if err != nil || !more {
			return err
		}
	}
}

func (r *remover) hoist(d *dir, name string) error {
	// a name that the tree's owner cannot take first
	fresh := tempPrefix + rand.Text()
	if err := unix.Renameat(d.fd, name, r.top.fd, fresh); err != nil {
		return err
	}

	r.todo = append(r.todo, fresh)

	return nil
}
