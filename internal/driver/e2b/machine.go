package e2b

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rolloutd/rolloutd/internal/driver/e2b/envd"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// machine is the service's machine of a sandbox.
type machine struct {
	id   string
	envd *envd.Client
}

// hosted reports whether one address serves all machines of the domain, as in the service's own clients.
func hosted(domain string) bool {
	return slices.Contains([]string{"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"}, domain)
}

func (d *Driver) machine(s apiSandbox) machine {
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

// find returns the machine of the sandbox; fault.SandboxLost: there is none.
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
	// the list lacks the token
	s, err := d.api.Get(ctx, all[0].ID)
	if fault.Is(err, fault.NotFound) {
		return machine{}, fault.Wrap(fault.SandboxLost, err, "sandbox %q is gone", id)
	}

	if err != nil {
		return machine{}, err
	}

	return d.remember(id, s), nil
}

// machines lists the sandbox's machines, the oldest first. There are several if the answer to a creation was lost.
func (d *Driver) machines(ctx context.Context, id string) ([]apiSandbox, error) {
	all, err := d.api.List(ctx, map[string]string{metaSandbox: id, metaOwner: d.owner})
	slices.SortFunc(all, func(a, b apiSandbox) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), cmp.Compare(a.ID, b.ID))
	})

	return all, err
}

func (d *Driver) remembered(id string) (machine, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()

	m, ok := d.byID[id]

	return m, ok
}

func (d *Driver) remember(id string, s apiSandbox) machine {
	m := d.machine(s)
	d.mu.Lock()
	defer d.mu.Unlock()

	d.byID[id] = m

	return m
}

// forget removes a machine that is, or may be, gone.
func (d *Driver) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()

	delete(d.byID, id)
}
