package hostapi

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"time"

	"github.com/rolloutd/rolloutd/internal/store"
)

// announcement is what the store has of a host.
type announcement struct {
	URL     string    `json:"url"`
	Machine string    `json:"machine"` // its name; a loopback address is good on it alone
	At      time.Time `json:"at"`
}

func keyOf(host string) string { return path.Join("hosts", host+".json") }

// Announce makes the address of a host known to the servers of the deployment.
func Announce(ctx context.Context, s *store.Store, host, at string) error {
	return s.PutJSON(ctx, keyOf(host), announcement{URL: at, Machine: machine(), At: time.Now()})
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
func (a announcement) check() error {
	u, err := url.Parse(a.URL)
	if err != nil {
		return err
	}
	ip := net.ParseIP(u.Hostname())
	if (ip.IsLoopback() || u.Hostname() == "localhost") && a.Machine != machine() {
		return fmt.Errorf("it announces %s, which no other machine reaches: set worker.listen (ROLLOUTD_WORKER_LISTEN) there", a.URL)
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
