package doctor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// patience bounds one look over the network.
const patience = 3 * time.Second

// Port is one address that a part wants.
type Port struct {
	What    string
	Address string
	Setting string // what moves it
}

// Ports checks that the addresses are free. Where rolloutd runs already (its /healthz at metrics answers), they are in use
// by it, and that is told instead.
func Ports(metrics string, ports []Port) Check {
	return func(ctx context.Context) []driver.Finding {
		if healthy(ctx, "http://"+metrics+"/healthz") {
			return []driver.Finding{{Name: "running", Detail: "rolloutd runs here already: http://" + metrics + "/healthz"}}
		}
		var all []driver.Finding
		for _, p := range ports {
			all = append(all, p.check())
		}
		return all
	}
}

func (p Port) check() driver.Finding {
	f := driver.Finding{Name: p.What, Detail: p.Address + " is free"}
	l, err := net.Listen("tcp", p.Address)
	if err != nil {
		f.Level, f.Detail = driver.Warn, fmt.Sprintf("%s: %v", p.Address, err)
		f.Mend = "stop what listens there, or move it with " + p.Setting
		return f
	}
	_ = l.Close() // nothing was sent over it
	return f
}

func healthy(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// Temporal checks that a server answers; dial connects once and closes again. Without one only the separate roles are stuck.
func Temporal(address string, dial func(context.Context) error) Check {
	return func(ctx context.Context) []driver.Finding {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := dial(ctx); err != nil {
			return []driver.Finding{{
				Name: "Temporal", Level: driver.Warn,
				Detail: "none at " + address + "; rolloutd-dev brings its own, the separate roles need one",
				Mend:   "rolloutd-dev temporal, or docker compose up -d, or set TEMPORAL_ADDRESS",
			}}
		}
		return []driver.Finding{{Name: "Temporal", Detail: "answers at " + address}}
	}
}
