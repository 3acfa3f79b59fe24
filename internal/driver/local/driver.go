package local

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/cgroup"
	"github.com/rolloutd/rolloutd/internal/driver/hostlibs"
	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/driver/seccomp"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// Options configures New. Dir and SandboxdPath are required.
type Options struct {
	// Dir holds a folder per sandbox; it is created if missing and must be private to its owner.
	Dir string
	// AgentsDir is mounted read-only at AgentsMount; "": none.
	AgentsDir string
	// SandboxdPath is the static sandboxd binary.
	SandboxdPath string
	// Image is the folder of the default root file system; "": the host's /usr with a generated /etc.
	Image string
	// Images finds the OCI images that a spec may name; nil: no images. BridgeDir holds the host's programs
	// for use in images.
	Images    Images
	BridgeDir string
	// AllowWeak lets root run on a machine without cgroup limits. It never overrides the probe.
	AllowWeak bool
	// Swap lets sandboxes swap, and swaps out the memory of an agent that has been stopped for a while.
	Swap bool
	// Bwrap is the bubblewrap binary; "": the one in PATH.
	Bwrap string
	// CgroupRoot is the mount point of cgroups; "": /sys/fs/cgroup.
	CgroupRoot string
	// Logger logs sweeps and the probe; nil: silent.
	Logger *slog.Logger
}

// Images finds OCI images. The error is a fault.Invalid if the image cannot be used, a fault.Unavailable if
// a later try may succeed.
type Images interface {
	Use(ctx context.Context, name string) (*image.Use, error)
}

// AgentsMount is the path of AgentsDir in every sandbox.
const AgentsMount = "/opt/rolloutd/agents"

// Driver creates sandboxes on this machine.
type Driver struct {
	dir      string
	agents   string
	sandboxd string

	// the folder of the default root file system; "": made from the host's
	standard  string
	images    Images
	bridge    string
	links     hostlibs.Links
	allowWeak bool
	bwrap     string
	cgroups   *cgroup.Hierarchy

	// nil: not root
	uids   *uids
	filter []byte
	log    *slog.Logger
	listed states

	probing sync.Mutex
	probed  bool
}

var (
	_ driver.Driver    = (*Driver)(nil)
	_ driver.Inspector = (*Driver)(nil)
	_ driver.Checker   = (*Driver)(nil)
	_ driver.Preparer  = (*Driver)(nil)

	_ driver.ImageReader = (*Driver)(nil)
)

// New prepares Dir and inspects this machine. It fails if no sandbox could be created, or only a weak one.
func New(o Options) (*Driver, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	d := &Driver{
		allowWeak: o.AllowWeak,
		cgroups:   cgroup.New(cmp.Or(o.CgroupRoot, "/sys/fs/cgroup")),
		log:       o.Logger,
	}

	d.cgroups.Swap = o.Swap
	if err := d.findFiles(o); err != nil {
		return nil, err
	}

	if os.Geteuid() != 0 {
		d.cgroups = nil
	} else if err := d.asRoot(); err != nil {
		return nil, err
	}

	filter, err := seccomp.Compile(d.cgroups != nil && d.cgroups.Version == 2)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "system call filter")
	}

	d.filter = filter

	return d, nil
}

func (d *Driver) findFiles(o Options) (err error) {
	if d.dir, err = driver.PrivateDir(o.Dir); err != nil {
		return fault.Wrap(fault.Invalid, err, "folder of the sandboxes")
	}

	if d.bwrap, err = exec.LookPath(cmp.Or(o.Bwrap, "bwrap")); err != nil {
		return fault.Wrap(fault.Unavailable, err, "bubblewrap (apt install bubblewrap)")
	}

	if d.sandboxd, err = existing(o.SandboxdPath); err != nil {
		return fault.Wrap(fault.Unavailable, err, "sandboxd binary")
	}

	if o.AgentsDir != "" {
		if d.agents, err = existing(o.AgentsDir); err != nil {
			return fault.Wrap(fault.Invalid, err, "agents folder")
		}
	}

	if o.Image != "" {
		if d.standard, err = existing(o.Image); err != nil {
			return fault.Wrap(fault.Invalid, err, "image folder")
		}
	}

	if d.images = o.Images; d.images != nil {
		d.bridge, d.links, err = hostlibs.Collect(o.BridgeDir)
	}

	return fault.Wrap(fault.Unavailable, err, "files for images")
}

// asRoot sets up what needs root.
func (d *Driver) asRoot() (err error) {
	if d.uids, err = newUIDs(runDir); err != nil {
		return fault.Wrap(fault.Unavailable, err, "user ids for sandboxes")
	}

	if err := d.cgroups.Prepare(); err != nil {
		if !d.allowWeak {
			return fault.Wrap(fault.Unavailable, err, "cgroup limits (allow weak sandboxes to run without)")
		}

		d.log.Warn("sandboxes run without cgroup limits", "error", err)
		d.cgroups = nil
	}

	return nil
}

func existing(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}

	if _, err := os.Stat(path); err != nil {
		return "", err
	}

	return filepath.EvalSymlinks(path)
}

// Prepare implements driver.Preparer: it finds or pulls the image of the spec.
func (d *Driver) Prepare(ctx context.Context, spec driver.Spec) error {
	if err := d.checkServices(spec); err != nil {
		return err
	}

	use, err := d.use(ctx, spec.Image)
	if err != nil {
		return err
	}

	if use != nil {
		defer use.Lock.Close()
	}

	_, err = imageconfig.Of(imageconfig.Stored(use), spec, d.uids != nil)

	return err
}

// Program implements driver.ImageReader.
func (d *Driver) Program(ctx context.Context, spec driver.Spec) (driver.Program, error) {
	use, err := d.use(ctx, spec.Image)
	if err != nil || use == nil {
		return driver.Program{}, err
	}
	defer use.Lock.Close()

	return driver.Program{Entrypoint: use.Image.Entrypoint, Command: use.Image.Cmd, Dir: use.Image.Workdir}, nil
}

// Renew is a no-op: sandboxd's lease is the only one.
func (d *Driver) Renew(context.Context, string, time.Duration) error { return nil }

func (d *Driver) path(id string) string { return filepath.Join(d.dir, id) }
