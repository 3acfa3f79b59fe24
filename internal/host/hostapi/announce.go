package hostapi

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/rolloutd/rolloutd/internal/store"
)

// Announce writes the record of a host for the servers of the deployment. It sets the machine and the time
// of the record.
func Announce(ctx context.Context, s *store.Store, h store.HostRecord) error {
	h.Machine, h.At = machine(), time.Now().UTC()
	return s.PutHost(ctx, h)
}

// machine is the name of this machine.
func machine() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}

	return name
}

// Reachable refuses an address of a host that was announced on another machine and leads to this one: of loopback, or
// of every interface (0.0.0.0).
func Reachable(h store.HostRecord, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}

	ip := net.ParseIP(u.Hostname())
	if (ip.IsLoopback() || ip.IsUnspecified() || u.Hostname() == "localhost") && h.Machine != machine() {
		return fmt.Errorf(
			"it announces %s, which other machines cannot reach: set worker.listen (ROLLOUTD_WORKER_LISTEN) there to an "+
				"address of that machine, or worker.advertise or worker.tools_url to its URL",
			address,
		)
	}

	return nil
}

// URL is where servers reach a listener: at advertise, if it is not empty, else at the listener's own address.
func URL(l net.Addr, advertise string) string {
	if advertise != "" {
		return advertise
	}

	return "http://" + l.String()
}
