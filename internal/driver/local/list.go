package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// sweepTime bounds the sweep of one dead sandbox, so that a listing is not delayed by it.
const sweepTime = time.Second

// usageTime is for how long the usage of a sandbox that died by itself is kept.
const usageTime = time.Hour

// List implements driver.Driver. It also sweeps the remains of dead sandboxes. A failed sweep (the disk is
// full, a process hangs in the kernel) is left to the next call, since it must not block the host.
func (d *Driver) List(ctx context.Context) ([]driver.Info, error) {
	listening, err := ListUnixListeners()
	// unsupported by the kernel: look dials each sandbox
	if err != nil {
		d.log.Debug("the kernel does not report which sandboxes listen", "error", err)
	}

	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "folder of the sandboxes")
	}

	var (
		infos   []driver.Info
		folders []string
	)

	for _, e := range entries {
		if !e.IsDir() {
			continue
		}

		dir := d.path(e.Name())
		folders = append(folders, dir)

		info, living, err := d.findSandbox(ctx, dir, listening)
		if err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "look at sandbox %q", e.Name())
		}

		if living && info.Labels[driver.LabelPurpose] != probePurpose {
			infos = append(infos, info)
		}
	}

	d.listed.retainOnly(folders)

	return infos, nil
}

// findSandbox returns the sandbox in dir if it lives, and sweeps it otherwise. It dials a sandbox that is not known to
// listen.
func (d *Driver) findSandbox(ctx context.Context, dir string, listening UnixListeners) (driver.Info, bool, error) {
	living := listening.Has(filepath.Join(dir, controlFile))
	if !living {
		var err error
		if living, err = alive(ctx, dir); err != nil {
			return driver.Info{}, false, err
		}
	}

	if !living {
		if err := d.sweep(ctx, dir); err != nil {
			d.log.Warn("a dead sandbox is not swept", "folder", dir, "error", err)
		}

		return driver.Info{}, false, nil
	}

	s, err := d.listed.read(dir)
	if err == nil && s.ID != filepath.Base(dir) {
		return driver.Info{}, false, d.reclaim(ctx, dir)
	}

	return s.info(), err == nil, err
}

// reclaim ends a sandbox whose HandOver was interrupted. It skips a locked one, which is still being handed over.
func (d *Driver) reclaim(ctx context.Context, dir string) error {
	f, err := tryLockFolder(dir, false)
	if errors.Is(err, errBusy) || errors.Is(err, os.ErrNotExist) {
		return nil
	}

	if err != nil {
		return err
	}

	defer f.unlock()

	s, err := readState(dir)
	if err != nil || s.ID == filepath.Base(dir) {
		return err
	}

	d.log.Warn("destroying a sandbox that was being handed over", "folder", dir, "to", s.ID)

	if err := d.clear(ctx, dir); err != nil {
		return err
	}

	return os.Remove(dir)
}

// sweep frees the resources of a dead sandbox and keeps its usage for a while. It skips one that another
// caller has locked.
func (d *Driver) sweep(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, sweepTime)
	defer cancel()

	f, err := tryLockFolder(dir, false)
	if errors.Is(err, errBusy) || errors.Is(err, os.ErrNotExist) {
		return nil
	}

	if err != nil {
		return err
	}

	defer f.unlock()

	if living, err := alive(ctx, dir); living || err != nil {
		return err
	}

	s, err := readState(dir)
	if err != nil || s.CreatedAt.IsZero() || !s.DiedAt.IsZero() && time.Since(s.DiedAt) > usageTime {
		if err := d.clear(ctx, dir); err != nil {
			return err
		}

		return os.Remove(dir)
	}

	if !s.DiedAt.IsZero() {
		return nil
	}

	usage := d.usage(s)

	s.DiedAt, s.Usage = time.Now(), &usage
	if err := d.killSandbox(ctx, dir, s); err != nil {
		return err
	}

	d.log.Info("swept a dead sandbox", "sandbox", s.ID, "oom_kills", usage.OOMKills)

	return s.write(dir)
}
