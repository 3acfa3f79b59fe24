package docker

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"golang.org/x/sync/singleflight"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/hostlibs"
	"github.com/rolloutd/rolloutd/internal/driver/seccomp"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Options configures New. Dir and SandboxdPath are required.
type Options struct {
	// Dir holds the name of this owner and the control sockets; it is created if missing and must be
	// private to its owner.
	Dir string
	// AgentsDir is mounted read-only at AgentsMount if the daemon sees it; "": none.
	AgentsDir string
	// SandboxdPath is the static sandboxd binary.
	SandboxdPath string
	// BridgeDir holds this machine's programs for use in any image.
	BridgeDir string
	// Image is the default image of sandboxes; "": each task must name one.
	Image string
	// Runtime is the name of the containers' OCI runtime; "": the daemon's default.
	Runtime string
	// Remote: the daemon does not see the files of this machine, whatever its address.
	Remote bool
	// Daemon is the address of the daemon.
	Daemon Daemon
	// MayPull returns an error for an image that must not be pulled; nil: none may be pulled.
	MayPull func(name string) error
	// KeepDead is for how long the container of a sandbox that ended by itself is kept, for its usage; 0: an hour.
	KeepDead time.Duration
	// KeepImages is the age at which an unused image of the driver is removed; 0: a week.
	KeepImages time.Duration
	// Logger logs sweeps; nil: silent.
	Logger *slog.Logger
}

// AgentsMount is the path of AgentsDir in a sandbox.
const AgentsMount = "/opt/rolloutd/agents"

// Driver creates sandboxes in one daemon. It is safe for concurrent use.
type Driver struct {
	o      Options
	owner  string
	docker *client.Client
	added  layer

	// system call filter of enclosed sandboxes
	filter []byte
	log    *slog.Logger

	// limits the making of images to one at a time
	making chan struct{}
	mu     sync.Mutex

	// time of the last search for old images
	looked time.Time

	// what the daemon says of itself; nil: it has not answered yet
	info *system.Info

	// the request for info
	asking singleflight.Group
}

var (
	_ driver.Driver    = (*Driver)(nil)
	_ driver.Inspector = (*Driver)(nil)
	_ driver.Checker   = (*Driver)(nil)
	_ driver.Preparer  = (*Driver)(nil)
)

// New prepares Dir. It does not connect to the daemon; Probe does.
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

	folder, links, err := hostlibs.Collect(o.BridgeDir)
	if err == nil {
		d.added, err = newLayer(o.SandboxdPath, folder, links)
	}

	return d, fault.Wrap(fault.Unavailable, err, "files for images")
}

// Probe fails if the daemon does not answer or lacks what sandboxes need.
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

// daemon returns the daemon's info. It is requested once, for all that wait for it.
func (d *Driver) daemon(ctx context.Context) (*system.Info, error) {
	d.mu.Lock()
	info := d.info
	d.mu.Unlock()

	if info != nil {
		return info, nil
	}

	asked := d.asking.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
		defer cancel()

		return d.fetchInfo(ctx)
	})

	select {
	case answer := <-asked:
		info, _ = answer.Val.(*system.Info)
		return info, answer.Err
	case <-ctx.Done():
		return nil, d.failed(context.Cause(ctx), "ask the daemon")
	}
}

// fetchInfo requests the daemon's info, and keeps it.
func (d *Driver) fetchInfo(ctx context.Context) (*system.Info, error) {
	if _, err := d.docker.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, d.failed(err, "ask the daemon")
	}

	got, err := d.docker.Info(ctx, client.InfoOptions{})
	if err != nil {
		return nil, d.failed(err, "ask the daemon")
	}

	d.mu.Lock()
	defer d.mu.Unlock()

	d.info = &got.Info

	return d.info, nil
}

// requestTime bounds a request that creates nothing.
const requestTime = time.Minute

// Prepare implements driver.Preparer: it finds or pulls the image of the spec, and adds the sandbox's files.
func (d *Driver) Prepare(ctx context.Context, spec driver.Spec) error {
	_, _, err := d.image(ctx, spec)
	return err
}

// Renew is a no-op: sandboxd's lease is the only one.
func (d *Driver) Renew(context.Context, string, time.Duration) error { return nil }
