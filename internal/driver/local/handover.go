package local

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
)

var _ driver.Handover = (*Driver)(nil)

// fixed is the part of a spec that a living sandbox cannot change: its mounts, and the arguments of its sandboxd.
type fixed struct {
	Image   string `json:"image,omitempty"`
	PIDs    int    `json:"pids"`
	HomeMiB int    `json:"home_mib"`
	TmpMiB  int    `json:"tmp_mib"`
	TreeMiB int    `json:"tree_mib"`
}

func fixedOf(spec driver.Spec) *fixed {
	return &fixed{
		Image:   spec.Image,
		PIDs:    spec.PIDs,
		HomeMiB: spec.HomeMiB,
		TmpMiB:  spec.TmpMiB,
		TreeMiB: treeMiB(spec),
	}
}

// HandOver implements driver.Handover. The rename of the sandbox's folder is the atomic step. The state in
// the folder has the new id before the rename: a state with an id other than its folder's was left by an
// interrupted HandOver, and List sweeps it.
func (d *Driver) HandOver(ctx context.Context, from, to string, spec driver.Spec) error {
	target, err := d.vacant(ctx, to)
	if err != nil {
		return err
	}
	defer target.unlock()

	source, err := lockFolder(ctx, d.path(from), false)
	if err != nil {
		return errors.Join(handOverError(err, from), os.Remove(target.path))
	}
	defer source.unlock()

	if err := d.rename(ctx, source.path, target.path, to, spec); err != nil {
		return errors.Join(handOverError(err, from), os.Remove(target.path))
	}

	return nil
}

func handOverError(err error, from string) error {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fault.Wrap(fault.SandboxLost, err, "sandbox %q is gone", from)
	case fault.Is(err, fault.Conflict):
		return err
	default:
		return fault.Wrap(fault.Unavailable, err, "hand over sandbox %q", from)
	}
}

// vacant locks an empty folder for the sandbox id, which must not be alive.
func (d *Driver) vacant(ctx context.Context, id string) (*folder, error) {
	f, err := lockFolder(ctx, d.path(id), true)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "folder of sandbox %q", id)
	}

	living, err := alive(ctx, f.path)
	switch {
	case err != nil:
		err = fault.Wrap(fault.Unavailable, err, "reach sandbox %q", id)
	case living:
		err = fault.New(fault.Conflict, "sandbox %q exists", id)
	default:
		err = fault.Wrap(fault.Unavailable, d.clear(ctx, f.path), "remove the remains of sandbox %q", id)
	}

	if err != nil {
		f.unlock()
		return nil, err
	}

	return f, nil
}

// rename moves the sandbox from the folder source to the empty folder target. Both are locked.
func (d *Driver) rename(ctx context.Context, source, target, id string, spec driver.Spec) error {
	s, err := readState(source)
	if err != nil {
		return err
	}

	living, err := alive(ctx, source)
	switch {
	case err != nil:
		return err
	case !living:
		return os.ErrNotExist
	case s.Fixed == nil || *s.Fixed != *fixedOf(spec):
		return fault.New(fault.Conflict, "sandbox %q was created with %+v and cannot be changed to %+v",
			s.ID, s.Fixed, *fixedOf(spec))
	}

	if d.cgroups != nil && s.Cgroup != "" {
		if err := d.cgroups.Limit(s.Cgroup, spec); err != nil {
			return err
		}
	}

	s.ID, s.Labels, s.CPU, s.MemoryMiB = id, spec.Labels, spec.CPU, spec.MemoryMiB
	// the janitor's grace period starts here
	s.CreatedAt = time.Now()

	s.HandedOver = s.CreatedAt
	if err := s.write(source); err != nil {
		return err
	}
	// os.Rename refuses an existing folder, even an empty one
	return unix.Rename(source, target)
}

// HandedOver implements driver.Handover.
func (d *Driver) HandedOver(_ context.Context, id string) (time.Time, error) {
	s, err := readState(d.path(id))
	if err != nil {
		return time.Time{}, fault.Wrap(fault.Unavailable, err, "state of sandbox %q", id)
	}

	return s.HandedOver, nil
}
