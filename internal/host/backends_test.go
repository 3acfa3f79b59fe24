package host_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// dialer is a driver whose sandboxes cannot be dialed.
type dialer struct {
	driver.Driver
	err   error
	dials int
}

func (d *dialer) Dial(context.Context, string) (net.Conn, error) {
	d.dials++
	return nil, d.err
}

// A backend that does not answer keeps no sandbox of another one from its model.
func TestServeModelAsksEachBackend(t *testing.T) {
	t.Parallel()

	lost, away := fault.New(fault.SandboxLost, "gone"), fault.New(fault.Unavailable, "no daemon")

	for name, c := range map[string]struct {
		docker, local error
		kind          fault.Kind
	}{
		"nobody has it":               {lost, lost, fault.SandboxLost},
		"the one that is away may":    {away, lost, fault.Unavailable},
		"the last one is away":        {lost, away, fault.Unavailable},
		"the first one is away":       {away, away, fault.Unavailable},
		"another one has its problem": {away, fault.New(fault.Invalid, "broken"), fault.Unavailable},
	} {
		docker, local := &dialer{err: c.docker}, &dialer{err: c.local}
		backends := host.Backends{
			"docker": sandbox.New(docker, sandbox.Options{}), "local": sandbox.New(local, sandbox.Options{}),
		}

		err := backends.ServeModel(t.Context(), "r.1", nil, nil)
		require.Equal(t, c.kind, fault.KindOf(err), "%s: %v", name, err)
		require.Equal(t, []int{1, 1}, []int{docker.dials, local.dials}, name)
	}
}
