package e2b

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/e2b/api"
	"github.com/rolloutd/rolloutd/internal/sandbox/e2b/envd"
)

// machine is a machine of the service that a sandbox is in.
type machine struct {
	id   string
	envd *envd.Client
}

// hosted are the domains at which one address serves all machines, as the service's own clients know them.
func hosted(domain string) bool {
	return slices.Contains([]string{"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"}, domain)
}

func (d *Driver) machine(s api.Sandbox) machine {
	domain, address := cmp.Or(s.Domain, d.o.Domain), d.o.SandboxURL
	switch {
	case address != "":
	case hosted(domain):
		address = "https://sandbox." + domain
	default:
		address = fmt.Sprintf("https://%d-%s.%s", envd.Port, s.ID, domain)
	}
	return machine{id: s.ID, envd: &envd.Client{HTTP: d.http, Address: address, Sandbox: s.ID, Token: s.Token}}
}

// find returns the machine of the sandbox. One that is not there is a fault.SandboxLost.
func (d *Driver) find(ctx context.Context, id string) (machine, error) {
	if m, ok := d.remembered(id); ok {
		return m, nil
	}
	all, err := d.machines(ctx, id)
	if err != nil {
		return machine{}, err
	}
	if len(all) == 0 {
		return machine{}, fault.New(fault.SandboxLost, "sandbox %q is gone", id)
	}
	s, err := d.api.Get(ctx, all[0].ID) // which has the token
	if fault.Is(err, fault.NotFound) {
		return machine{}, fault.Wrap(fault.SandboxLost, err, "sandbox %q is gone", id)
	}
	if err != nil {
		return machine{}, err
	}
	return d.remember(id, s), nil
}

// machines lists those of the sandbox, the oldest first. There is more than one where the answer to a creation was lost.
func (d *Driver) machines(ctx context.Context, id string) ([]api.Sandbox, error) {
	all, err := d.api.List(ctx, map[string]string{metaSandbox: id, metaOwner: d.owner})
	slices.SortFunc(all, func(a, b api.Sandbox) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

func (d *Driver) remembered(id string) (machine, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.known[id]
	return m, ok
}

func (d *Driver) remember(id string, s api.Sandbox) machine {
	m := d.machine(s)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[id] = m
	return m
}

// forget is called when a machine is gone, or may be.
func (d *Driver) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, id)
}
