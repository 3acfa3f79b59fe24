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

// Announce makes a host known to the servers of the deployment. What the record says of the machine and of the time is set here.
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

// check refuses an address that means this machine and was announced on another one.
func check(h store.HostRecord) error {
	u, err := url.Parse(h.URL)
	if err != nil {
		return err
	}
	ip := net.ParseIP(u.Hostname())
	if (ip.IsLoopback() || u.Hostname() == "localhost") && h.Machine != machine() {
		return fmt.Errorf("it announces %s, which no other machine reaches: set worker.listen (ROLLOUTD_WORKER_LISTEN) there", h.URL)
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
