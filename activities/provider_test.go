package activities_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// provider is a driver whose sandboxes are boxes.
type provider struct {
	mu    sync.Mutex
	boxes map[string]*fakeSandbox
	specs map[string]driver.Spec

	// ids in the order of creation
	made []string
	exec func(b *fakeSandbox, name string, p wire.Process) exec

	// OOM kills of each sandbox
	ooms int

	// the host's memory was full
	byHost bool

	// sandboxes whose sandboxd the kernel killed
	ended []string

	// called for each new sandbox
	onBox func(b *fakeSandbox)

	// returned by Create; nil: there is capacity
	full error

	// returned by Prepare
	pull error

	// returned by Program
	program error
}

// Prepare implements driver.Preparer.
func (p *provider) Prepare(context.Context, driver.Spec) error { return p.pull }

// Program implements driver.ImageReader.
func (p *provider) Program(context.Context, driver.Spec) (driver.Program, error) {
	return driver.Program{}, p.program
}

func (p *provider) Create(_ context.Context, id string, spec driver.Spec) error {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.full != nil {
		return p.full
	}

	if _, ok := p.boxes[id]; !ok {
		p.boxes[id] = newFakeSandbox(
			id,
			func(b *fakeSandbox, name string, pr wire.Process) exec { return p.exec(b, name, pr) },
		)
		if p.onBox != nil {
			p.onBox(p.boxes[id])
		}

		p.made = append(p.made, id)
	}

	p.specs[id] = spec

	return nil
}

func (p *provider) Dial(ctx context.Context, id string) (net.Conn, error) {
	b, ok := p.box(id)
	if !ok {
		return nil, fault.New(fault.SandboxLost, "sandbox %q is gone", id)
	}

	return (&net.Dialer{}).DialContext(ctx, "tcp", b.srv.Listener.Addr().String())
}

func (p *provider) Destroy(_ context.Context, id string) error {
	if b, ok := p.box(id); ok {
		p.mu.Lock()
		delete(p.boxes, id)
		p.mu.Unlock()
		b.srv.CloseClientConnections()
		b.srv.Close()
	}

	return nil
}

func (p *provider) List(context.Context) ([]driver.Info, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	var infos []driver.Info
	for id := range p.boxes {
		infos = append(infos, driver.Info{ID: id, Labels: p.specs[id].Labels, MemoryMiB: p.specs[id].MemoryMiB})
	}

	return infos, nil
}

func (p *provider) Renew(context.Context, string, time.Duration) error { return nil }

func (p *provider) Inspect(_ context.Context, id string) (driver.Usage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if slices.Contains(p.ended, id) {
		return driver.Usage{OOMKills: p.ooms + 1, Killed: true}, nil
	}

	return driver.Usage{OOMKills: p.ooms, ByHost: p.byHost}, nil
}

func (p *provider) box(id string) (*fakeSandbox, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	b, ok := p.boxes[id]

	return b, ok
}
