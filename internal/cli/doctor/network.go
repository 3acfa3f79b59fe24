package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
)

// timeout bounds one check over the network.
const timeout = 3 * time.Second

// Port is an address that a role listens on.
type Port struct {
	Name    string
	Address string

	// the setting that changes it
	Setting string
}

// Ports checks that the addresses are free. If rolloutd is already running (its /healthz at metrics
// answers), the only finding says so.
func Ports(metrics string, ports []Port) Check {
	return func(ctx context.Context) []driver.Finding {
		if healthy(ctx, "http://"+metrics+"/healthz") {
			return []driver.Finding{
				{Name: "running", Detail: "rolloutd is already running: http://" + metrics + "/healthz"},
			}
		}

		var all []driver.Finding
		for _, p := range ports {
			all = append(all, p.check())
		}

		return all
	}
}

func (p Port) check() driver.Finding {
	f := driver.Finding{Name: p.Name, Detail: p.Address + " is free"}

	l, err := net.Listen("tcp", p.Address)
	if err != nil {
		f.Level, f.Detail = driver.Warn, fmt.Sprintf("%s: %v", p.Address, err)
		f.Fix = "stop the program that listens there, or set another address with " + p.Setting

		return f
	}
	// nothing was sent
	_ = l.Close()

	return f
}

func healthy(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}

	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()

	return resp.StatusCode == http.StatusOK
}

// Temporal checks that a Temporal server answers; dial connects once and closes the connection. Only the
// separate roles need one.
func Temporal(address string, dial func(context.Context) error) Check {
	return func(ctx context.Context) []driver.Finding {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()

		if err := dial(ctx); err != nil {
			return []driver.Finding{{
				Name: "Temporal", Level: driver.Warn,
				Detail: "no server at " + address + "; the separate roles need one, rolloutd-dev has its own",
				Fix:    "run rolloutd-dev temporal or docker compose up -d, or set TEMPORAL_ADDRESS",
			}}
		}

		return []driver.Finding{{Name: "Temporal", Detail: "answers at " + address}}
	}
}

// TemporalAccess reports who can use the Temporal server. One without credentials, like the embedded one,
// is open to all who reach it; secured says whether the configuration has credentials.
func TemporalAccess(address string, secured bool) Check {
	return func(context.Context) []driver.Finding {
		if secured {
			return []driver.Finding{{
				Name:   "Temporal access",
				Detail: "with the credentials of TEMPORAL_TLS_* or TEMPORAL_API_KEY",
			}}
		}

		return []driver.Finding{
			{
				Name:   "Temporal access",
				Level:  driver.Warn,
				Detail: "everyone who can reach " + address + " or the Temporal UI can list, start and end workflows, and so can every user of this machine: it requires no credentials (payloads are encrypted)",
				Fix:    "give this machine no other users, or use a Temporal cluster with TLS client certificates (TEMPORAL_TLS_*)",
			},
		}
	}
}
