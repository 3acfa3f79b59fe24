package e2b

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Destroy implements driver.Driver.
func (d *Driver) Destroy(ctx context.Context, id string) error {
	d.forget(id)

	all, err := d.machines(ctx, id)
	if err != nil {
		return err
	}

	for _, s := range all {
		if err := d.killMachine(ctx, id, s.ID); err != nil {
			return err
		}
	}

	return nil
}

// List implements driver.Driver. A machine whose metadata cannot be read ends by its timeout.
func (d *Driver) List(ctx context.Context) ([]driver.Info, error) {
	all, err := d.api.List(ctx, map[string]string{metaOwner: d.owner})
	if err != nil {
		return nil, err
	}

	var infos []driver.Info

	seen := map[string]bool{}

	for _, s := range all {
		info, err := infoOf(s)
		if err != nil {
			d.log.Warn("metadata of a sandbox cannot be read", "machine", s.ID, "error", err)
			continue
		}
		// Two machines with the same id are one sandbox: its id finds both.
		if !seen[info.ID] {
			infos = append(infos, info)
		}

		seen[info.ID] = true
	}

	return infos, nil
}

// Renew implements driver.Driver: it extends the service's timeout.
func (d *Driver) Renew(ctx context.Context, id string, lease time.Duration) error {
	m, err := d.find(ctx, id)
	if err != nil {
		return err
	}

	err = d.api.SetTimeout(ctx, m.id, time.Duration(timeoutOf(lease))*time.Second)
	if fault.Is(err, fault.NotFound) {
		d.forget(id)
		return fault.Wrap(fault.SandboxLost, err, "sandbox %q is gone", id)
	}

	return err
}

// lostError turns the error of a dial into SandboxLost if the machine is gone or sandboxd has ended in it. It
// ends such a machine.
func (d *Driver) lostError(ctx context.Context, id string, m machine, err error) error {
	if !isGone(err) {
		s, getErr := d.api.Get(ctx, m.id)
		switch {
		case fault.Is(getErr, fault.NotFound):
		case getErr != nil:
			return getErr
		case s.State == "" || s.State == stateRunning:
			return fault.Wrap(fault.Unavailable, err, "dial sandbox %q", id)
		}
	}

	d.log.Info("ending a machine without sandboxd", "sandbox", id, "machine", m.id)

	if killErr := d.killMachine(ctx, id, m.id); killErr != nil {
		return killErr
	}

	return fault.Wrap(fault.SandboxLost, err, "sandbox %q is gone", id)
}
