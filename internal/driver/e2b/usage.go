package e2b

import (
	"context"
	"net"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/usage"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Inspect implements driver.Inspector. sandboxd reads the counters of the machine's cgroups and queries the
// file systems for free space.
func (d *Driver) Inspect(ctx context.Context, id string) (driver.Usage, error) {
	m, err := d.find(ctx, id)
	if err != nil {
		return driver.NoUsage(), err
	}

	u, err := usage.Read(ctx, func(ctx context.Context) (net.Conn, error) { return d.dial(ctx, m) })
	if isGone(err) {
		return u, fault.Wrap(fault.SandboxLost, err, "sandbox %q is gone", id)
	}

	if err != nil {
		d.log.Warn("usage is unknown", "sandbox", id, "error", err)
	}

	return u, nil
}
