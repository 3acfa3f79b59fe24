package docker

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/bridge"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/seccomp"
)

// Options configures New. Dir and SandboxdPath are required.
type Options struct {
	// Dir holds the name of this owner and the control sockets; it is made when missing and must be private to its owner.
	Dir string
	// AgentsDir is mounted read-only at AgentsMount where the daemon sees it; "": nothing is.
	AgentsDir string
	// SandboxdPath is the static sandboxd binary.
	SandboxdPath string
	// BridgeDir keeps what programs of this machine need in any image.
	BridgeDir string
	// Image is the image of sandboxes that name none; "": each must name one.
	Image string
	// Runtime is the OCI runtime of the containers, one that the daemon knows; "": the daemon's default.
	Runtime string
	// Remote says that the daemon does not see the files of this machine, whatever its address.
	Remote bool
	// Daemon is where the daemon is.
	Daemon Daemon
	// MayPull refuses an image that the daemon does not have and that must not be pulled; nil: none is pulled.
	MayPull func(name string) error
	// KeepDead is how long the container of a sandbox that ended by itself is kept, for its usage; 0: an hour.
	KeepDead time.Duration
	// KeepImages is the age from which an image that the driver made is removed where no container uses it; 0: a week.
	KeepImages time.Duration
	// Logger reports sweeps; nil is silent.
	Logger *slog.Logger
}

// AgentsMount is where AgentsDir shows in a sandbox.
const AgentsMount = "/opt/rolloutd/agents"

// Driver makes sandboxes in one daemon. It is safe for concurrent use.
type Driver struct {
	o      Options
	owner  string
	docker *client.Client
	added  layer
	filter []byte // of system calls, for sandboxes that are a part of a container
	log    *slog.Logger

	making chan struct{} // one image of our own is made at a time
	mu     sync.Mutex
	looked time.Time    // for old images
	info   *system.Info // of the daemon, once it has answered
}

var (
	_ driver.Driver    = (*Driver)(nil)
	_ driver.Inspector = (*Driver)(nil)
	_ driver.Checker   = (*Driver)(nil)
	_ driver.Preparer  = (*Driver)(nil)
)

// New prepares Dir. It does not wait for the daemon; Probe does.
func New(o Options) (*Driver, error) {
	d := &Driver{o: o, log: o.Logger, making: make(chan struct{}, 1)}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.o.KeepDead, d.o.KeepImages = cmp.Or(o.KeepDead, time.Hour), cmp.Or(o.KeepImages, 7*24*time.Hour)
	var err error
	if d.o.Dir, err = driver.PrivateDir(o.Dir); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "folder of the sandboxes")
	}
	if d.owner, err = driver.Owner(d.o.Dir); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "name of this host")
	}
	if d.docker, err = o.Daemon.connect(); err != nil {
		return nil, err
	}
	if d.filter, err = seccomp.Compile(false); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "system call filter")
	}
	folder, links, err := bridge.Collect(o.BridgeDir)
	if err == nil {
		d.added, err = newLayer(o.SandboxdPath, folder, links)
	}
	return d, fault.Wrap(fault.Unavailable, err, "files for images")
}

// Probe fails where the daemon does not answer, or cannot give what a sandbox needs.
func (d *Driver) Probe(ctx context.Context) error {
	info, err := d.daemon(ctx)
	if err != nil {
		return err
	}
	for _, f := range d.findings(info) {
		if f.Level == driver.Fail {
			return fault.New(fault.Unavailable, "docker: %s: %s; %s", f.Name, f.Detail, f.Fix)
		}
	}
	return nil
}

// daemon asks the daemon about itself, once.
func (d *Driver) daemon(ctx context.Context) (*system.Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.info != nil {
		return d.info, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if _, err := d.docker.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, d.failed(err, "ask the daemon")
	}
	got, err := d.docker.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, d.failed(err, "ask the daemon")
	}
	d.info = &got.Info
	return d.info, nil
}

// requestTime bounds a request that makes nothing.
const requestTime = time.Minute

// Prepare implements driver.Preparer: it finds the image of the spec, or pulls it, and adds what sandboxes need.
func (d *Driver) Prepare(ctx context.Context, spec driver.Spec) error {
	_, _, err := d.image(ctx, spec)
	return err
}

// Renew is a no-op: the only lease is sandboxd's.
func (d *Driver) Renew(context.Context, string, time.Duration) error { return nil }
