package local

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// clearTime bounds the end of a sandbox: SIGKILL takes milliseconds unless the machine is overloaded.
const clearTime = 20 * time.Second

// Destroy implements driver.Driver.
func (d *Driver) Destroy(ctx context.Context, id string) error {
	f, err := lockFolder(ctx, d.path(id), false)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}

	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "folder of sandbox %q", id)
	}

	defer f.unlock()

	if err := d.clear(ctx, f.path); err != nil {
		return fault.Wrap(fault.Unavailable, err, "end sandbox %q", id)
	}

	return os.Remove(f.path)
}

// clear ends the sandbox in its folder and empties the folder, which the caller has locked.
func (d *Driver) clear(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, clearTime)
	defer cancel()

	s, err := readState(dir)
	if err != nil {
		d.log.Warn("unreadable state of a sandbox", "folder", dir, "error", err)
		s = state{ID: filepath.Base(dir)}
	}

	if err := d.killSandbox(ctx, dir, s); err != nil {
		return err
	}

	return empty(dir)
}

// killSandbox kills the sandbox and removes its cgroups and volumes. It returns when no process of it is left. For a
// copy of a sandbox's folder it does nothing.
func (d *Driver) killSandbox(ctx context.Context, dir string, s state) error {
	if living, err := alive(ctx, dir); err != nil || !living && s.copied(dir) {
		return err
	}

	if d.cgroups != nil {
		// The name by rule is for a missing state, the state's for a folder that was moved.
		if err := d.cgroups.Remove(ctx, cmp.Or(s.Cgroup, d.cgroupName(s.ID))); err != nil {
			return err
		}
	}

	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		living, err := alive(ctx, dir)
		if err != nil {
			return err
		}

		if !living {
			return dropVolumes(dir)
		}
		// Only that of a living sandbox is sure to be its own: after a restart of the machine, or of the container of this
		// process, another sandbox may have its number and the number of its namespace.
		if first, ok := readInit(dir); ok {
			if err := first.kill(); err != nil {
				return err
			}
		}

		if err := clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
	}

	return err
}
